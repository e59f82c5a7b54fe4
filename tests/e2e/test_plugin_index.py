# Covers: runtime/cli/plugin/{device_numerics,index_options,install,passed_check,publish,search,source,trust} runtime/cli/http_client
"""An index of plugins from publish to a script that pins what was installed, and everything that has to be refused."""
import base64
import contextlib
import hashlib
import http.server
import json
import os
import pathlib
import socket
import ssl
import subprocess
import threading
import time

import pytest

from conftest import BUILD, SOURCE, process_names, run_mortise

PLUGIN = BUILD / "tests/e2e/plugins/lookback.so"
BUILT_IN = BUILD / "ngram.so"


def openssl(*args, **more):
    return subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True, **more).stdout


def make_key(folder, name):
    private, public = folder / f"{name}.key", folder / f"{name}.pem"
    openssl("genpkey", "-algorithm", "ed25519", "-out", private)
    openssl("pkey", "-in", private, "-pubout", "-out", public)
    return private, public


@contextlib.contextmanager
def web_server(folder, redirects=None, certificate=None):
    """Serves a folder as any web server would; `redirects` maps paths to where they lead."""
    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(folder))

        def do_GET(self):
            target = (redirects or {}).get(self.path)
            if target is None:
                return super().do_GET()
            self.send_response(302)
            self.send_header("Location", target)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"{'https' if certificate else 'http'}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """An index with lookback, and the keys of its author."""
    folder = tmp_path_factory.mktemp("author")
    private, public = make_key(folder, "author")
    process = run_mortise("plugin", "publish", PLUGIN, "--key", private, "--index", folder / "index")
    assert process.returncode == 0, process.stderr
    entry = folder / "index" / process.stdout.split("/")[-1].strip()
    assert "none failed" in process.stdout and entry.exists()
    return {"folder": folder, "index": folder / "index", "private": private, "public": public, "entry": entry}


@pytest.fixture
def user(tmp_path, monkeypatch):
    """A user without keys or plugins. user(...) runs the program."""
    for name in ("DATA", "CONFIG", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    monkeypatch.delenv("MORTISE_PLUGIN_INDEX", raising=False)
    return lambda *args, **more: run_mortise("plugin", *args, **more)


def refused(process, *texts):
    assert process.returncode != 0, process.stdout
    for text in texts:
        assert text in process.stderr, process.stderr
    return process.stderr


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_what_is_published_is_signed_so_that_openssl_verifies_it(published, tmp_path):
    signature = json.loads(pathlib.Path(f"{published['entry']}.sig").read_text())
    (tmp_path / "raw").write_bytes(base64.b64decode(signature["signature"]))
    output = openssl("pkeyutl", "-verify", "-pubin", "-inkey", published["public"], "-rawin", "-in", published["entry"],
                     "-sigfile", tmp_path / "raw")
    assert b"Signature Verified Successfully" in output
    raw = openssl("pkey", "-pubin", "-in", published["public"], "-outform", "DER")[-32:]
    assert signature["key"] == hashlib.sha256(raw).hexdigest()[:32]


def test_an_entry_says_what_the_plugin_is(published):
    entry = json.loads(published["entry"].read_text())
    assert entry["parts"][0]["name"] == "lookback" and entry["parts"][0]["kind"] == "proposer"
    assert entry["sha256"] == sha256(PLUGIN) == sha256(published["index"] / entry["file"])
    assert entry["check"]["passed"] >= 30 and entry["check"]["level"] == "quick"
    index = json.loads((published["index"] / "index.json").read_text())
    assert [line["entry"] for line in index["plugins"]] == [published["entry"].name]


def test_a_devices_entry_has_its_numerics_ids(published, tmp_path):
    device = BUILD / "tests/unit/conformance/broken/broken_device.so"  # no option breaks it here
    process = run_mortise("plugin", "publish", device, "--key", published["private"], "--index", tmp_path)
    assert process.returncode == 0, process.stderr
    entry = json.loads(next(path for path in tmp_path.glob("broken_device-*.json")).read_text())
    assert [id.split("/")[0] for id in entry["parts"][0]["numerics"]] == ["cpu-bf16", "cpu-f32"]
    found = run_mortise("plugin", "search", "cpu-bf16", "--index", tmp_path)
    assert found.returncode == 0 and "numerics cpu-bf16/" in found.stdout


def test_from_a_web_server_to_a_script_that_pins_it(published, user, tmp_path, monkeypatch):
    with web_server(published["folder"]) as url:
        monkeypatch.setenv("MORTISE_PLUGIN_INDEX", f"{url}/index")
        search = user("search", "proposer")
        assert search.returncode == 0 and search.stdout.startswith("lookback  "), search.stderr
        refused(user("install", "lookback", "--to", tmp_path), "which is not trusted here", "mortise plugin trust KEY.pem")
        trusted = user("trust", published["public"])
        assert trusted.returncode == 0 and trusted.stdout.startswith("trusted: "), trusted.stderr
        installed = user("install", "lookback", "--to", tmp_path / "plugins")
    assert installed.returncode == 0, installed.stderr
    assert "signature  by the trusted key" in installed.stdout and "none failed" in installed.stdout
    assert (tmp_path / "plugins/lookback.so").read_bytes() == PLUGIN.read_bytes()
    pin = f'plugin {{ "lookback", sha256 = "{sha256(PLUGIN)}" }}'
    assert pin in installed.stdout
    script = tmp_path / "pinned.lua"
    script.write_text(f"""return pipeline {{
  device = cpu {{}}, model = llama {{ path = "{SOURCE}/models/demo" }}, attention = paged {{}}, scheduler = fcfs {{}},
  proposer = {pin} {{}}, kv_cache = {{ memory = "64MiB" }},
}}
""")
    run = run_mortise("run", script, "-p", "2 + 2 =", "-n", "4", env={"MORTISE_PLUGIN_PATH": str(tmp_path / "plugins")})
    assert run.returncode == 0, run.stderr


def test_a_plugin_of_a_new_name_goes_where_every_script_finds_it(user, tmp_path, monkeypatch):
    plugin = BUILD / "tests/e2e/plugins/lookback.so"
    process = user("install", plugin, "--sha256", sha256(plugin))
    assert process.returncode == 0, process.stderr
    name = pathlib.Path(process.stdout.split("installed  ")[1].splitlines()[0])
    assert name.parent == tmp_path / "data/mortise/plugins"
    listed = user("list")
    assert f"  {name.name}" in listed.stdout, listed.stdout


def test_a_name_that_is_built_in_is_not_published(published, user, tmp_path):
    args = ("--key", published["private"], "--index", tmp_path / "index")
    told = ("'ngram' is the name of a built-in proposer, which scripts find first",
            "give the component another name and build it again")
    process = user("publish", BUILT_IN, *args)
    refused(process, *told)
    assert process.stdout == ""  # the manifest has the name: no case has run
    plain = tmp_path / "mine.so"  # whatever the file is called; without a manifest the check runs first
    subprocess.run(["objcopy", "--rename-section", ".mortise.module=.other", BUILT_IN, plain], check=True)
    process = user("publish", plain, *args)
    refused(process, *told)
    assert "none failed" in process.stdout
    assert not (tmp_path / "index").exists()


def test_a_name_that_is_built_in_is_refused_where_it_would_never_be_found(published, user, tmp_path):
    """An entry that another program has made."""
    info = json.loads(published["entry"].read_text())
    manifest = subprocess.run([BUILD / "mortise", "plugin", "info", BUILT_IN], capture_output=True, text=True).stdout
    words = dict(line.split(maxsplit=1) for line in manifest.splitlines()[1:] if len(line.split(maxsplit=1)) == 2)
    id, version = words["plugin"].split(",")[0].split()
    info.update(id=id, version=version, license="Apache-2.0", abi=words["plugin"].split("ABI ")[1], file="ngram.so",
                size=BUILT_IN.stat().st_size, sha256=sha256(BUILT_IN))
    info["parts"][0]["name"] = "ngram"
    (tmp_path / "ngram.so").write_bytes(BUILT_IN.read_bytes())
    entry = tmp_path / "ngram.json"
    signed(entry, json.dumps(info), published["private"], published["public"])
    user("trust", published["public"])
    refused(user("install", entry), "scripts would still find the 'ngram' of", "install into another folder with --to")
    assert user("install", entry, "--to", tmp_path / "plugins").returncode == 0


def test_keys_are_listed_and_removed(published, user):
    assert "no key is trusted" in user("trust").stderr
    key = user("trust", published["public"]).stdout.split()[1]
    assert user("trust").stdout.startswith(key)
    assert user("trust", "--remove", key).stdout.startswith("no longer trusted: ")
    refused(user("trust", "--remove", key), f"no key {key} is trusted")
    refused(user("trust", published["private"]), "this is a private key, which stays with its owner")
    refused(user("install", published["entry"], "--to", "/nowhere"), "which is not trusted here")


@pytest.fixture
def copied(published, user, tmp_path):
    """The index in a folder that a test may damage, and a user who trusts its author."""
    user("trust", published["public"])
    folder = tmp_path / "index"
    folder.mkdir()
    for path in published["index"].iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder / published["entry"].name


def install(user, entry, tmp_path):
    process = user("install", entry, "--to", tmp_path / "plugins")
    if process.returncode != 0:
        assert not (tmp_path / "plugins").exists(), "what is refused leaves nothing behind"
    return process


def test_a_changed_entry_is_refused(copied, user, tmp_path):
    copied.write_text(copied.read_text().replace('"passed": ', '"passed": 9'))
    refused(install(user, copied, tmp_path), "somebody changed one of them")


def test_another_authors_signature_is_refused(copied, user, tmp_path):
    private, public = make_key(tmp_path, "other")
    key = signed(copied, copied.read_text(), private, public)
    refused(install(user, copied, tmp_path), f"the key {key}, which is not trusted here")
    user("trust", public)  # what openssl signed is taken once its key is trusted
    assert install(user, copied, tmp_path).returncode == 0


def test_a_changed_file_is_refused(copied, user, tmp_path):
    plugin = copied.with_suffix(".so")
    data = bytearray(plugin.read_bytes())
    data[len(data) // 2] ^= 1
    plugin.write_bytes(data)
    refused(install(user, copied, tmp_path), ": the file was changed")
    plugin.write_bytes(data[:-1])
    refused(install(user, copied, tmp_path), "it was changed or cut off")
    plugin.write_bytes(data + b"x")
    refused(install(user, copied, tmp_path), "which is too large for its purpose")


def signed(entry, text, private, public):
    """Writes an entry and its signature as openssl makes it."""
    entry.write_text(text)
    raw = entry.with_suffix(".raw")
    openssl("pkeyutl", "-sign", "-inkey", private, "-rawin", "-in", entry, "-out", raw)
    key = hashlib.sha256(openssl("pkey", "-pubin", "-in", public, "-outform", "DER")[-32:]).hexdigest()[:32]
    pathlib.Path(f"{entry}.sig").write_text(json.dumps({"format": "mortise-signature/1", "key": key,
                                                        "signature": base64.b64encode(raw.read_bytes()).decode()}))
    return key


def test_an_entry_that_lies_is_refused_although_it_is_signed(published, copied, user, tmp_path):
    """An author's mistake: the file is another plugin than the entry says. The file's manifest tells before it runs; without a
    manifest the check's own process does."""
    entry = json.loads(copied.read_text())
    entry["parts"][0]["name"] = "other"
    signed(copied, json.dumps(entry), published["private"], published["public"])
    refused(install(user, copied, tmp_path), "the entry describes proposer 'other', and the file itself proposer 'lookback'")
    plain = copied.parent / "plain.so"
    subprocess.run(["objcopy", "--rename-section", ".mortise.module=.other", PLUGIN, plain], check=True)
    entry.update(file="plain.so", size=plain.stat().st_size, sha256=sha256(plain))
    signed(copied, json.dumps(entry), published["private"], published["public"])
    refused(install(user, copied, tmp_path), "the plugin's first part is 'other', but it is 'lookback'; ask its author to publish it again")


def test_the_hash_that_the_user_gives_counts_beside_the_signature(copied, user, tmp_path):
    refused(user("install", copied, "--sha256", "0" * 64, "--to", tmp_path), f"but --sha256 asks for {'0' * 64}")
    assert user("install", copied, "--sha256", sha256(PLUGIN), "--to", tmp_path).returncode == 0


def test_missing_files_are_named(copied, user, tmp_path):
    copied.with_suffix(".so").unlink()
    refused(install(user, copied, tmp_path), ".so: No such file or directory")
    pathlib.Path(f"{copied}.sig").unlink()
    refused(install(user, copied, tmp_path), ".json.sig: No such file or directory")


def test_a_plugin_that_fails_the_check_is_neither_published_nor_installed(published, user, tmp_path):
    broken = BUILD / "tests/unit/conformance/broken/broken_two_line_summary.so"
    refused(user("publish", broken, "--key", published["private"], "--index", tmp_path / "index"),
            f"{broken}: it does not pass the case metadata.texts of `mortise plugin check`: ")
    assert not (tmp_path / "index").exists()
    refused(user("install", broken, "--sha256", sha256(broken), "--to", tmp_path / "plugins"),
            f"{broken}: it does not pass the case metadata.texts of `mortise plugin check`: ")
    assert not (tmp_path / "plugins").exists()


def test_a_file_needs_its_hash(user, tmp_path):
    refused(user("install", PLUGIN), "nobody vouches for a plugin file alone")
    for wrong in ("xyz", "0" * 63):
        refused(user("install", PLUGIN, "--sha256", wrong), "expected the 64 hexadecimal digits that sha256sum prints")
    refused(user("install", PLUGIN, "--sha256", ""), "it is empty")
    refused(user("install", "lookback@"), "a version is missing after the @")
    refused(user("install", PLUGIN, "--sha256", "0" * 64), f"has the SHA-256 {sha256(PLUGIN)}, not {'0' * 64}")
    refused(user("install", "a/b"), "name an entry that ends in .json")


def test_an_index_that_nobody_named_is_not_asked(user):
    refused(user("search"), "no index of plugins is named: give --index URL|FOLDER, or set MORTISE_PLUGIN_INDEX")
    refused(user("search", "--index", "ftp://example.org"), "only http, https and file urls can be read")
    refused(user("search", "--index", "http://me:secret@localhost:1"), "user names and passwords in a url are not supported")
    refused(user("search", "--index", "http://localhost:1/a b"), "a url has no spaces and no control characters")
    for url in ("http:///x", "http://localhost:99999", "http://localhost:x"):
        refused(user("search", "--index", url), "it has no host, or a port that is not a number from 1 to 65535")


def test_publish_writes_into_a_folder_of_this_machine(published, user, tmp_path):
    args = ("publish", PLUGIN, "--key", published["private"], "--index")
    refused(user(*args, "http://localhost:1/x", cwd=tmp_path), "publish writes into a folder of this machine")
    refused(user(*args, "", cwd=tmp_path), "it is empty")
    assert list(tmp_path.iterdir()) == []
    again = user(*args, published["index"])
    assert again.returncode == 0 and again.stderr == ""


def test_a_key_is_trusted_no_more_whatever_its_files_are_called(published, user, tmp_path):
    key = user("trust", published["public"]).stdout.split()[1]
    folder = tmp_path / "config/mortise/trusted_keys"
    (folder / "alice.pem").write_bytes(published["public"].read_bytes())
    (folder / "broken.pem").write_text("no key")
    listed = user("trust")
    assert listed.stdout.count(key) == 3  # its own file has its name
    assert "not used, repair or remove it: " in listed.stderr and "broken.pem" in listed.stderr
    assert user("trust", "--remove", key).stdout.count("no longer trusted: ") == 2
    refused(user("install", published["entry"], "--to", tmp_path), "which is not trusted here")
    both = tmp_path / "both.pem"
    both.write_bytes(published["public"].read_bytes() * 2)
    refused(user("trust", both), "there are several keys in it")
    refused(user("trust", ""), "it is empty")


def test_an_update_says_what_it_replaces(published, user, tmp_path):
    user("trust", published["public"])
    first = user("install", published["entry"], "--to", tmp_path / "plugins")
    assert "replaces" not in first.stdout and f"with MORTISE_PLUGIN_PATH={tmp_path}/plugins" in first.stdout
    assert "replaces   1.0.0" in user("install", published["entry"], "--to", tmp_path / "plugins").stdout


def test_an_index_without_plugins_and_its_own_file_are_understood(published, user, tmp_path):
    (tmp_path / "index.json").write_text('{"format": "mortise-index/1", "plugins": []}')
    refused(user("search", "--index", tmp_path / "index.json"), "is an index without plugins")
    assert user("search", "--index", published["index"] / "index.json").returncode == 0


def test_a_server_that_sends_next_to_nothing_is_left(user):
    """At least 1 KiB a second is asked for, after 30 seconds: the test sends 1 byte a second."""
    listener = socket.create_server(("127.0.0.1", 0))

    def drip():
        client, _ = listener.accept()
        with client, contextlib.suppress(OSError):
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            while True:
                client.sendall(b" ")
                time.sleep(1)

    threading.Thread(target=drip, daemon=True).start()
    refused(user("search", "--index", f"http://127.0.0.1:{listener.getsockname()[1]}"), "sends less than 1024 bytes a second")


def test_a_plugin_that_starts_a_process_is_refused_and_the_process_ended(user, tmp_path, monkeypatch):
    monkeypatch.setenv("STRAY_NAME", "stray-installed")
    for name, case in (("process_at_loading", "file.loads"), ("hidden_daemon_at_loading", "file.loads")):
        file = BUILD / f"tests/unit/conformance/broken/broken_{name}.so"
        told = f"it does not pass the case {case} of `mortise plugin check`: it leaves the process 'stray-installed' behind"
        refused(user("install", file, "--sha256", sha256(file)), told)
    assert "stray-installed" not in process_names()


def test_a_plugin_that_dies_leaves_no_file(user, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    fatal = BUILD / "tests/e2e/plugins/fatal/rogue_constructor.so"
    refused(user("install", fatal, "--sha256", sha256(fatal)), "it does not pass the case")
    assert run_mortise("plugin", "check", fatal).returncode == 1
    assert list(tmp_path.iterdir()) == []


def test_what_the_index_lacks_is_told(published, user):
    index = ("--index", f"file://{published['index']}")
    refused(user("search", "nothing", *index), "has no such plugin; without words, all its plugins are listed")
    refused(user("install", "lookbak", *index), "no plugin 'lookbak'; did you mean 'lookback'? (`mortise plugin search` lists its plugins)")
    refused(user("install", "lookback@9.9", *index), "has no version 9.9 of 'lookback', but it has")


def test_an_index_that_offers_another_plugin_is_refused(copied, user, tmp_path):
    path = copied.parent / "index.json"
    path.write_text(path.read_text().replace('"lookback"', '"wanted"'))
    refused(user("install", "wanted", "--index", copied.parent, "--to", tmp_path / "plugins"),
            "is the entry of 'lookback' 1.0.0, but the index says 'wanted' 1.0.0")
    path.write_text(path.read_text().replace('"wanted"', '"lookback"').replace('"1.0.0"', '"9.9"'))
    refused(user("install", "lookback@9.9", "--index", copied.parent, "--to", tmp_path / "plugins"),
            "is the entry of 'lookback' 1.0.0, but the index says 'lookback' 9.9")


def test_redirections_are_followed_but_not_in_circles(published, user, tmp_path):
    user("trust", published["public"])
    with web_server(published["folder"]) as files:
        names = [path.name for path in published["index"].iterdir()]
        redirects = {f"/{name}": f"{files}/index/{name}" for name in names}
        redirects["/circle.json"] = "circle.json"
        redirects["/odd.json"] = "gopher://example.org"
        with web_server(tmp_path, redirects) as url:
            assert install(user, f"{url}/{published['entry'].name}", tmp_path).returncode == 0
            refused(user("install", f"{url}/circle.json"), "more than 5 redirections lead from one to the next")
            refused(user("install", f"{url}/odd.json"), "it leads to 'gopher://example.org', which is neither http nor https")
            refused(user("install", f"{url}/none.json"), "the server answers 404: it has no such file")


def test_https_is_verified_and_never_left(published, user, tmp_path):
    user("trust", published["public"])
    certificate, key = tmp_path / "cert.pem", tmp_path / "cert.key"
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=127.0.0.1", "-addext",
            "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate)
    redirects = {"/plain.json": "http://127.0.0.1:9/x.json"}
    with web_server(published["folder"], redirects, (certificate, key)) as url:
        entry = f"{url}/index/{published['entry'].name}"
        refused(install(user, entry, tmp_path), "its certificate is not trusted")
        refused(user("install", f"{url}/plain.json", "--cacert", certificate), "which is not https and is not followed")
        process = user("install", entry, "--cacert", certificate, "--to", tmp_path / "plugins")
        assert process.returncode == 0, process.stderr


def test_a_hostile_index_cannot_write_to_the_terminal(copied, user):
    path = copied.parent / "index.json"
    index = json.loads(path.read_text())
    for text in ("x\x1b[2J", "x\u009b2J", "x\u202egpj", "x\u2028y"):
        index["plugins"][0]["parts"][0]["summary"] = text
        path.write_text(json.dumps(index))
        refused(user("search", "--index", copied.parent), "plugin 1 of the index: 'summary' is not a line")
