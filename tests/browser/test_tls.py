"""TLS that ends in CodeHub itself: from the sign-in page to a workspace's own origin and its IDE, by HTTP/2 and WebSockets."""

import socket

from playwright.sync_api import expect

from certificates import Certificate
from codehub import ADMIN, PASSWORD
from conftest import listen
from dashboard import sign_in
from ide import Ide


def test_somebody_signs_in_and_works_by_https(start, browser, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    certificate = Certificate(tmp_path, ["code.own.test", "*.apps.test"])
    base = f"https://code.own.test:{port}"
    server = start(
        **certificate.settings(), CODEHUB_LISTEN=f"127.0.0.1:{port}", PUBLIC_BASE_URL=base, PROXY_DOMAIN="apps.test",
    )
    id = server.api.create("secure")
    secure = certificate.browser(browser)
    context = secure.new_context(base_url=base, locale="en-US", ignore_https_errors=True)
    page, complaints = context.new_page(), []
    listen(page, complaints)
    # Whoever forgets the s is led on.
    page.goto(f"http://code.own.test:{port}/login")
    expect(page).to_have_url(f"{base}/login")
    protocol = "performance.getEntriesByType('navigation')[0].nextHopProtocol"
    assert page.evaluate(protocol) == "h2"
    sign_in(page, ADMIN, PASSWORD)
    expect(page).to_have_title("Workspaces · CodeHub")
    assert page.evaluate("isSecureContext")
    page.goto(f"/open/{id}")
    ide = Ide(page).ready()
    assert page.url.startswith(f"https://{id}.apps.test:{port}/")
    assert page.evaluate(protocol) == "h2"
    ide.run("seq 1 20000 | tail -n 1; echo by-$((40 + 2))")
    ide.sees("20000")
    ide.sees("by-42")
    names = {cookie["name"]: cookie["secure"] for cookie in context.cookies()}
    assert names.get("__Host-Http-session") and names.get("__Host-Http-workspace"), names
    assert not complaints, complaints
    secure.close()
