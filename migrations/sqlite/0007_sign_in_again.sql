-- Everybody signs in once more: a browser may still have a service worker that a workspace planted over the sign-in
-- page, and signing in is what evicts it.
DELETE FROM sessions;
