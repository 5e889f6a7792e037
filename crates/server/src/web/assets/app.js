// Keeps pages live. Everything works without it; with it, rows and details follow what happens, times
// count, and questions come in a dialog. All markup comes from the server: an event only says what to
// fetch again. No texts live here either: they are in the page.

const lang = document.documentElement.lang;
const clockSkew = Number(document.documentElement.dataset.now) - Date.now();
const $ = (selector, root = document) => root.querySelector(selector);
const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
const parse = (html) => new DOMParser().parseFromString(html, 'text/html');

// --- times ---

const ago = new Intl.RelativeTimeFormat(lang, { numeric: 'always' });
const rightNow = new Intl.RelativeTimeFormat(lang, { numeric: 'auto' }).format(0, 'second');
const exact = new Intl.DateTimeFormat(lang, { dateStyle: 'full', timeStyle: 'long' });

function relative(at, never) {
  const seconds = Math.floor(at / 1000) - Math.floor((Date.now() + clockSkew) / 1000);
  if (seconds === 0 || (seconds < 0 && never)) return rightNow;
  const size = Math.abs(seconds);
  const [unit, span] = size < 60 ? ['second', 1] : size < 3600 ? ['minute', 60] : size < 86400 ? ['hour', 3600] : ['day', 86400];
  return ago.format(Math.trunc(seconds / span), unit);
}

function tell(root = document) {
  for (const time of $$('time[datetime]', root)) {
    const at = Date.parse(time.dateTime);
    if (Number.isNaN(at)) continue;
    const text = relative(at, time.hasAttribute('data-ahead'));
    if (time.textContent !== text) time.textContent = text;
    if (!time.dataset.exact) {
      time.dataset.exact = '1';
      time.title = exact.format(at);
    }
  }
}
setInterval(tell, 1000);

// --- swapping what the server drew anew ---

const drawn = new WeakMap(); // what the server sent, before times were localised
function remember(root) {
  for (const element of $$('[data-part]', root)) drawn.set(element, element.outerHTML);
}
remember(document);
tell();

function announce(element) {
  $('#announcer').textContent = `${element.dataset.name}: ${element.dataset.label}`;
}

// Replaces an element; focus stays on the same control, or goes to the first link of the new one.
function swap(old, fresh) {
  const focus = old.contains(document.activeElement) ? document.activeElement.dataset.testid : undefined;
  const focused = old.contains(document.activeElement);
  const opened = $$('details[open][data-testid]', old).map((details) => details.dataset.testid);
  if (fresh.matches('[data-part]')) drawn.set(fresh, fresh.outerHTML);
  remember(fresh);
  old.replaceWith(fresh);
  for (const details of $$('details[data-testid]', fresh)) if (opened.includes(details.dataset.testid)) details.open = true;
  tell(fresh);
  if (focused) ((focus && $(`[data-testid="${focus}"]`, fresh)) || $('a, button', fresh))?.focus();
}

function swapRow(old, fresh) {
  if (old.dataset.label !== fresh.dataset.label) announce(fresh);
  $('.ws-pick input', fresh).checked = $('.ws-pick input', old).checked;
  swap(old, fresh);
}

// Nothing is drawn anew under a finger: what is replaced between press and release is not clicked.
let released = Promise.resolve(), release = () => {};
addEventListener('pointerdown', (event) => {
  if (event.button) return;
  released = new Promise((done) => { release = done; });
  setTimeout(release, 10_000); // the release may be told to somebody else
}, true);
for (const end of ['pointerup', 'pointercancel']) addEventListener(end, () => setTimeout(release), true);

// A part somebody is filling in stays as it is.
const inUse = (part) => part.contains(document.activeElement) && document.activeElement.matches('input, textarea, select')
  || $$('input[type="checkbox"]', part).some((box) => box.checked);

function swapDetail(fresh) {
  const detail = $('#detail');
  if (!detail || !fresh) return;
  if (detail.dataset.label !== fresh.dataset.label) announce(fresh);
  for (const part of $$('[data-part]', fresh)) {
    const old = document.getElementById(part.id);
    if (old && drawn.get(old) !== part.outerHTML && !inUse(old)) swap(old, part);
  }
  for (const name of ['version', 'phase', 'operation', 'name', 'label']) detail.dataset[name] = fresh.dataset[name];
  detail.toggleAttribute('data-busy', fresh.hasAttribute('data-busy'));
}

// --- fetching ---

async function draw(url) {
  const response = await fetch(url, { redirect: 'manual', headers: { accept: 'text/html' } });
  if (response.type === 'opaqueredirect') {
    $('#ended').hidden = false; // to the sign-in page
    throw new Error('signed out');
  }
  if (response.status === 404 || response.status === 403) return null;
  if (!response.ok) throw new Error(`status ${response.status}`);
  return parse(await response.text());
}

const drawLive = async (url) => {
  const page = await draw(url);
  await released;
  return page;
};

// One fetch per workspace at a time; what arrives meanwhile is one more afterwards.
const busy = new Map();
async function refresh(id) {
  if (busy.has(id)) {
    busy.set(id, true);
    return;
  }
  busy.set(id, false);
  try {
    const detail = $(`#detail[data-id="${id}"]`);
    const row = document.getElementById(`ws-${id}`);
    if (detail) {
      const page = await drawLive(`/workspaces/${id}/live`);
      if (page) swapDetail($('#detail', page));
      else gone(id);
    } else if (row) {
      const page = await drawLive(`/workspaces/${id}/row${$('#workspaces').dataset.query ?? ''}`);
      if (page) swapRow(row, $('li', page));
      else gone(id);
    } else if (isNew(id)) {
      const page = await drawLive(`/workspaces/${id}/row${$('#workspaces').dataset.query ?? ''}`);
      if (page && isNew(id) && !document.getElementById(`ws-${id}`)) {
        $('#empty')?.remove();
        const fresh = $('li', page);
        $('#workspaces').prepend(fresh);
        tell(fresh);
      }
    }
  } catch { /* the next event, or the next look, tries again */ }
  const again = busy.get(id);
  busy.delete(id);
  if (again) refresh(id);
}

// Ids begin with the time they were made at: what is newer than this page belongs on top of an unfiltered first page.
function isNew(id) {
  const made = parseInt(id.replace('-', '').slice(0, 12), 16);
  return $('#workspaces[data-newest]') && made >= Number(document.documentElement.dataset.now);
}

// Whoever deletes it from its page is on the way to where the answer leads, with what it says.
let leaving = false;
async function gone(id) {
  await released;
  if ($(`#detail[data-id="${id}"]`) && !leaving) location.assign('/');
  const row = document.getElementById(`ws-${id}`);
  if (!row) return;
  if (row.contains(document.activeElement)) $('main').focus();
  row.remove();
  countTicked();
}

// --- events ---

let events, offlineSoon, silence, retry = 1000;
const watching = () => $('#workspaces, #detail');

function listen() {
  if (!watching() || events) return;
  events = new EventSource('/api/v1/events');
  const heard = () => {
    clearTimeout(offlineSoon);
    clearTimeout(silence);
    offlineSoon = undefined;
    retry = 1000;
    $('#offline').hidden = true;
    silence = setTimeout(() => reconnect(0), 100_000);
  };
  events.onopen = heard;
  events.addEventListener('heartbeat', heard);
  events.addEventListener('workspace_updated', (event) => {
    heard();
    const workspace = JSON.parse(event.data);
    const shown = $(`#detail[data-id="${workspace.id}"], [id="ws-${workspace.id}"]`);
    if (shown ? shown.dataset.version !== workspace.updated_at : isNew(workspace.id)) refresh(workspace.id);
  });
  events.addEventListener('workspace_deleted', (event) => {
    heard();
    gone(JSON.parse(event.data).id);
  });
  events.onerror = () => {
    offlineSoon ??= setTimeout(() => { $('#offline').hidden = false; }, 3000);
    if (events?.readyState === EventSource.CLOSED) reconnect(retry = Math.min(retry * 2, 30_000));
  };
}

function hush() {
  clearTimeout(silence);
  events?.close();
  events = undefined;
}

function reconnect(delay) {
  hush();
  setTimeout(async () => {
    const session = await fetch('/api/v1/auth/session').catch(() => null);
    if (session?.status === 401) {
      $('#offline').hidden = true;
      $('#ended').hidden = false;
      clearTimeout(offlineSoon);
    } else if (!document.hidden) listen();
  }, delay);
}

// Hidden tabs hold no connection: browsers have few of them per server. The events begin with a
// snapshot, so coming back makes the page whole.
let hideSoon;
document.addEventListener('visibilitychange', () => {
  clearTimeout(hideSoon);
  if (document.hidden) hideSoon = setTimeout(hush, 15_000);
  else listen();
});
addEventListener('pagehide', hush);
addEventListener('pageshow', (event) => {
  if (event.persisted) location.reload();
});
listen();

// What no event tells: other people's workspaces, and that activity has moved a countdown.
function look(selector) {
  if (!document.hidden) for (const element of $$(selector)) refresh(element.dataset.id);
}
setInterval(() => look('[data-poll][data-busy]'), 3000);
setInterval(() => look('[data-poll]:not([data-busy])'), 20_000);
setInterval(() => look('[data-phase="RUNNING"][data-id]:not([data-poll], [data-busy])'), 60_000);

// In its last minutes a countdown is asked for more often, so that it is the one the IDE shows.
function near(element) {
  const left = (time) => Date.parse(time.dateTime) - Date.now() - clockSkew;
  return $$('[data-testid="countdown"] time', element).some((time) => left(time) < 90_000);
}
setInterval(() => {
  if (document.hidden) return;
  for (const element of $$('[data-phase="RUNNING"][data-id]:not([data-busy])')) if (near(element)) refresh(element.dataset.id);
}, 5000);

// --- dialogs, forms, small comforts ---

const MENUS = 'details:is(.menu, .acts)[open]';
const dialog = $('#dialog');
let opener;

async function ask(link) {
  opener = link;
  const page = await draw(link.href);
  const content = page && $('[data-dialog-content]', page);
  if (!content) {
    location.assign(link.href);
    return;
  }
  dialog.replaceChildren(content);
  dialog.showModal();
  $('[autofocus], input:not([type="hidden"])', content)?.focus();
}

document.addEventListener('click', (event) => {
  if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const target = event.target.closest?.('[data-dialog], [data-close], [data-copy], #follow') ?? event.target;
  if (target.matches('a[data-dialog]')) {
    event.preventDefault();
    ask(target).catch(() => location.assign(target.href));
  } else if (target.matches('[data-close]') && dialog.contains(target)) {
    event.preventDefault();
    dialog.close();
  } else if (target === dialog) {
    dialog.close();
  } else if (target.matches('[data-copy]')) {
    const input = document.getElementById(target.dataset.copy);
    input.select();
    navigator.clipboard?.writeText(input.value).then(() => { target.textContent = target.dataset.done; }, () => {});
  } else if (target.id === 'follow') {
    follow(target);
  }
  for (const menu of $$(MENUS)) if (!menu.contains(event.target)) menu.open = false;
});
dialog.addEventListener('close', () => {
  dialog.replaceChildren();
  if (opener?.isConnected) opener.focus();
});
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape') for (const menu of $$(MENUS)) {
    menu.open = false;
    $('summary', menu).focus();
  }
});

// A form that is one button: sent in place, so that nobody loses their place on the page.
document.addEventListener('submit', async (event) => {
  const form = event.target;
  if (!form.matches('form[data-inline]')) {
    leaving = true;
    return;
  }
  event.preventDefault();
  const button = $('button', form);
  button.disabled = true;
  const id = form.closest('[data-id]')?.dataset.id;
  form.closest('details.acts')?.removeAttribute('open');
  try {
    const fields = new URLSearchParams(new FormData(form));
    if (fields.has('back')) fields.set('back', '/flash'); // what to say, without the page around it
    const response = await fetch(form.action, { method: 'POST', body: fields });
    const page = parse(await response.text());
    if (!$('#flashes', page) || !response.redirected || new URL(response.url).pathname === '/login') throw new Error('elsewhere');
    $('#flashes').replaceWith($('#flashes', page));
    await refresh(id);
    button.disabled = false;
  } catch {
    form.removeAttribute('data-inline');
    button.disabled = false;
    form.requestSubmit();
  }
});

// --- many at once ---

const boxes = () => $$('.ws-pick input');
function countTicked() {
  const all = boxes(), ticked = all.filter((box) => box.checked).length;
  const every = $('#select-all');
  if (!every) return;
  $('#ticked').textContent = ticked ? `: ${ticked}` : '';
  every.checked = ticked > 0 && ticked === all.length;
  every.indeterminate = ticked > 0 && ticked < all.length;
}
document.addEventListener('change', (event) => {
  if (event.target.id === 'select-all') for (const box of boxes()) box.checked = event.target.checked;
  if (event.target.matches('.ws-pick input, #select-all')) countTicked();
});
// The browser would reset the boxes after this, and #select-all, which is not of the form, later still.
$('#bulk')?.addEventListener('reset', (event) => {
  event.preventDefault();
  for (const box of boxes()) box.checked = false;
  countTicked();
});
for (const label of $$('.select-all')) label.hidden = false;

for (const select of $$('form[data-auto] select')) select.addEventListener('change', () => select.form.requestSubmit());
for (const button of $$('[data-copy], #follow')) button.hidden = false;

// --- logs ---

const MOST_LOG = 400_000;
let following, resume;

async function follow(button) {
  if (following) {
    following.abort();
    return;
  }
  following = new AbortController();
  button.setAttribute('aria-pressed', 'true');
  $('#no-log')?.remove();
  const log = $('#log');
  try {
    const url = `/api/v1/workspaces/${button.dataset.id}/logs?tail=200&follow=true`;
    const response = await fetch(url, { signal: following.signal });
    if (response.ok) {
      log.textContent = '';
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
        log.append(value.replace(/\x1b\[[\x20-\x3f]*[\x40-\x7e]/g, '').replace(/[\x00-\x08\x0b-\x1f\x7f]/g, ''));
        if (log.textContent.length > MOST_LOG) log.textContent = log.textContent.slice(-MOST_LOG / 2);
        if (atEnd) log.scrollTop = log.scrollHeight;
      }
    }
  } catch { /* stopped, or cut off: the button says so */ }
  following = undefined;
  button.setAttribute('aria-pressed', 'false');
}

const log = $('#log');
if (log) log.scrollTop = log.scrollHeight;

// What runs is followed without being asked to, as long as somebody looks.
if ($('#follow') && $('#detail[data-phase="RUNNING"]')) follow($('#follow'));
document.addEventListener('visibilitychange', () => {
  const button = $('#follow');
  if (document.hidden && following) {
    resume = true;
    following.abort();
  } else if (!document.hidden && resume && button) {
    resume = false;
    if (!following) follow(button);
  }
});

// --- signing in ---

// The answer to a sign-in may clear all that pages have stored in this browser, to be rid of service workers that were
// planted there: not where an editor keeps what was typed, as long as there is no such worker. When in doubt, it stays.
const own = (worker) => /^\/w\/[^/]+\//.test(new URL(worker.scope).pathname);
async function keepsSomething() {
  const planted = ((await navigator.serviceWorker?.getRegistrations()) ?? []).filter((worker) => !own(worker));
  if (planted.length || navigator.serviceWorker?.controller) {
    await Promise.all(planted.map((worker) => worker.unregister()));
    return false;
  }
  return (await indexedDB.databases()).length > 0;
}

const door = $('form[action="/login"]');
if (door) {
  let known = false;
  const asked = keepsSomething().catch(() => true).then((kept) => {
    door.elements.kept.value = kept ? '1' : '';
    known = true;
  });
  door.addEventListener('submit', async (event) => {
    if (known) return;
    event.preventDefault();
    await asked;
    door.submit();
  });
}
