"""A certificate by a CA made for a test, and a Chromium that trusts it and finds the names in it on this machine."""

import subprocess

from conftest import CHROMIUM, FLAGS


class Certificate:
    """For these names; `pin` is what a browser is told to trust."""

    def __init__(self, directory, names):
        self.file, self.key = directory / "leaf.pem", directory / "key.pem"
        run = lambda *words: subprocess.run(["openssl", *words], check=True, capture_output=True, cwd=directory)
        run("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=test CA")
        run("req", "-newkey", "rsa:2048", "-nodes", "-keyout", str(self.key), "-out", "leaf.csr", "-subj", "/CN=leaf")
        (directory / "ext").write_text("subjectAltName=" + ",".join(f"DNS:{name}" for name in names))
        run("x509", "-req", "-in", "leaf.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out", str(self.file), "-days", "2", "-extfile", "ext")
        self.key.chmod(0o600)
        pass_on = lambda input, *words: subprocess.run(["openssl", *words], input=input, capture_output=True, check=True).stdout
        der = pass_on(run("x509", "-in", str(self.file), "-noout", "-pubkey").stdout, "pkey", "-pubin", "-outform", "der")
        self.pin = pass_on(pass_on(der, "dgst", "-sha256", "-binary"), "base64", "-A").decode()

    def settings(self):
        """For a server that ends TLS itself."""
        return {"TLS_CERT": self.file, "TLS_KEY": self.key}

    def browser(self, browser):
        """All of `*.test` is this machine."""
        names = "--host-resolver-rules=MAP *.test 127.0.0.1"
        pin = f"--ignore-certificate-errors-spki-list={self.pin}"
        return browser.browser_type.launch(executable_path=CHROMIUM, args=[*FLAGS, names, pin], chromium_sandbox=False)
