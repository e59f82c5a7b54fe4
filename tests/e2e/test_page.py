"""The page at /, in headless Chromium (scripts/install.sh tests): what a user types, sees and stops."""
# Covers: runtime/server/{page_files,page_routes}
import json
import shutil
import threading

import pytest
from selenium import webdriver
from selenium.common.exceptions import TimeoutException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from conftest import SOURCE
from cutting_proxy import CuttingProxy
from live_server import LiveServer, live_server

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="no chromium: scripts/install.sh tests")
PAGE = SOURCE / "runtime/server/page"
SECONDS = 30


class Page:
    def __init__(self, driver, url):
        self.driver = driver
        driver.get(url)

    def find(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector):
        """As it stands in the document, white space included."""
        return self.find(selector).get_property("textContent")

    def wait(self, what, condition):
        try:
            WebDriverWait(self.driver, SECONDS, poll_frequency=0.05).until(lambda _: condition())
        except TimeoutException:
            pytest.fail(f"waited for {what}; the page says: {self.find('body').text}\n{self.driver.get_log('browser')}")

    def set(self, element_id, value):
        self.driver.execute_script("document.getElementById('settings').open = true")
        box = self.find("#" + element_id)
        box.clear()
        box.send_keys(str(value))

    def choose_mode(self, mode):
        self.driver.execute_script("document.getElementById('settings').open = true")
        self.find(f"input[value={mode}]").click()

    def ask(self, text):
        self.find("#text").send_keys(text + Keys.ENTER)

    def is_idle(self):
        return self.find("#send").is_enabled()

    def answer(self):
        """The last answer's text, when it has ended."""
        self.wait("the answer's end", lambda: self.is_idle() and self.all(".turn.assistant .figures"))
        return self.all(".turn.assistant .said")[-1].get_property("textContent")

    def figures(self):
        return self.all(".turn.assistant .figures")[-1].text

    def errors_of_scripts(self):
        """What the console has of errors of scripts and of the policy; not of answers such as 401."""
        return [entry for entry in self.driver.get_log("browser")
                if entry["level"] == "SEVERE" and entry["source"] != "network"]


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--window-size=1280,900",
                     f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"]:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def server(always_drafting):
    with live_server(always_drafting) as running:
        yield running


@pytest.fixture
def page(driver, server):
    page = Page(driver, server.url)
    yield page
    assert page.errors_of_scripts() == []


CHAT = "Tell me a story."


def chat_of_the_api(server, **fields):
    return server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": CHAT}], **fields})["choices"][0]


def test_the_files_are_served_as_they_are_and_nothing_else_may_run(server):
    for name, kind in [("index.html", "text/html"), ("page.css", "text/css"), ("page.js", "text/javascript"),
                       ("page_stream.js", "text/javascript"), ("page_parts.js", "text/javascript"),
                       ("icon.svg", "image/svg+xml")]:
        status, headers, text = server.ask("GET", "/" if name == "index.html" else "/" + name)
        assert status == 200 and headers["Content-Type"].startswith(kind)
        assert text == (PAGE / name).read_text()
        assert headers["Cache-Control"] == "no-cache"
        assert "default-src 'self'" in headers["Content-Security-Policy"]
        assert "unsafe" not in headers["Content-Security-Policy"]
    assert server.ask("HEAD", "/")[0] == 200
    assert server.ask("POST", "/")[0] == 405
    assert server.ask("GET", "/page.cpp")[0] == 404


def test_a_chat_is_typed_and_streamed(page, server):
    page.set("temperature", 0)
    page.set("max_tokens", 60)
    page.ask(CHAT)
    said = page.answer()
    whole = chat_of_the_api(server, temperature=0, max_tokens=60)
    assert said == whole["message"]["content"]
    assert page.text(".turn.user .said") == CHAT
    fingerprint = server.get("/v1/models")["data"][0]["system_fingerprint"]
    assert fingerprint in page.figures()
    page.ask("And then?")  # the conversation goes on
    page.wait("two answers", lambda: len(page.all(".turn.assistant .figures")) == 2)


def test_drafted_tokens_have_another_shade_and_without_drafts_none_has(page):
    def ask():
        page.ask(CHAT)
        return page.answer()

    page.set("temperature", 0)
    page.set("max_tokens", 40)
    with_drafts = ask()
    drafted = page.all(".token.drafted")
    assert drafted and len(drafted) < len(page.all(".said .token"))
    plain = page.find(".said .token:not(.drafted)")
    assert drafted[0].value_of_css_property("background-color") != plain.value_of_css_property("background-color")
    page.find("#clear").click()
    Select(page.find("#proposer")).select_by_value("none")
    assert ask() == with_drafts  # the product's promise
    assert page.all(".token.drafted") == []


def test_log_probabilities_by_pointer_and_by_keys(page, server):
    page.set("temperature", 0)
    page.set("max_tokens", 12)
    page.ask(CHAT)
    page.answer()
    first = chat_of_the_api(server, temperature=0, max_tokens=12, logprobs=True, top_logprobs=4)["logprobs"]["content"][0]
    webdriver.ActionChains(page.driver).move_to_element(page.find(".said .token")).perform()
    assert f"{first['logprob']:.4f}" in page.text("#token")
    assert len(page.all("#token tr")) == 4
    described = page.text("#token")
    page.find("#log").send_keys(Keys.ARROW_RIGHT)
    assert page.text("#token") != described


def test_a_stream_is_stopped(driver, server):
    proxy = CuttingProxy(server.port)
    try:
        page = Page(driver, f"http://127.0.0.1:{proxy.port}")
        page.set("max_tokens", 1900)
        page.find("#ignore_eos").click()
        proxy.hold_after = 4000  # or the whole answer may be there before the click
        page.ask(CHAT)
        page.wait("the first tokens", lambda: page.all(".turn.assistant .token"))
        assert not page.find("#send").is_enabled()
        page.find("#stop").click()
        proxy.hold_after = None
        assert page.answer()
        assert "stopped" in page.figures()
        assert page.text("#error") == ""
        page.wait("nothing runs", lambda: server.get("/status")["models"][0]["running"] == 0)
        page.find("#ignore_eos").click()
        page.set("max_tokens", 5)
        page.ask("And now?")  # after a stopped answer the conversation goes on
        page.wait("two answers", lambda: len(page.all(".turn.assistant .figures")) == 2)
        assert page.errors_of_scripts() == []
    finally:
        proxy.close()


def test_a_completion_with_a_seed_beyond_doubles_is_the_apis(page, server):
    seed = 18054151001440371875
    page.choose_mode("completion")
    page.set("max_tokens", 30)
    page.set("temperature", 1)
    page.set("seed", seed)
    page.ask("Once upon a time")
    whole = server.post("/v1/completions", {"prompt": "Once upon a time", "max_tokens": 30, "temperature": 1, "seed": seed})
    assert page.answer() == whole["choices"][0]["text"]
    assert page.text(".figures .seed") == str(seed)


@pytest.mark.parametrize("cut_after", [0, 4000])
def test_a_stream_that_breaks_goes_on_and_says_everything_once(driver, server, cut_after):
    proxy = CuttingProxy(server.port)
    try:
        page = Page(driver, f"http://127.0.0.1:{proxy.port}")
        page.choose_mode("completion")
        page.set("max_tokens", 200)
        page.set("temperature", 1)
        page.set("seed", 11)
        proxy.cut_after = cut_after
        page.ask("Once upon a time")
        whole = server.post("/v1/completions",
                            {"prompt": "Once upon a time", "max_tokens": 200, "temperature": 1, "seed": 11})
        assert page.answer() == whole["choices"][0]["text"]
        assert proxy.num_cuts == 1
        assert "resumed once" in page.figures()
    finally:
        proxy.close()


def test_an_answer_goes_on_behind_a_server_that_was_killed(driver):
    body = {"prompt": "Once upon a time", "max_tokens": 1500, "temperature": 1, "seed": 12, "ignore_eos": True}
    first = LiveServer()
    proxy = CuttingProxy(first.port)
    try:
        page = Page(driver, f"http://127.0.0.1:{proxy.port}")
        page.choose_mode("completion")
        page.find("#ignore_eos").click()
        for name in ("max_tokens", "temperature", "seed"):
            page.set(name, body[name])
        proxy.hold_after = 4000
        page.ask(body["prompt"])
        page.wait("the first tokens", lambda: page.all(".turn.assistant .token"))
        first.process.kill()
        with live_server() as second:
            proxy.target, proxy.hold_after = second.port, None  # it may have ended before so much had come
            assert page.answer() == second.post("/v1/completions", body)["choices"][0]["text"]
        assert "resumed once" in page.figures()
        assert page.text("#error") == ""
    finally:
        first.process.kill()
        first.process.communicate()
        proxy.close()


def test_what_a_model_writes_is_text(page):
    page.driver.execute_script("""
      return import('/page_answer.js').then(({AnswerView}) => {
        const said = document.createElement('div');
        said.id = 'probe';
        document.body.append(said);
        const view = new AnswerView(said);
        view.add({text: '<img src=x onerror="document.title=1">', token_ids: [1]});
        view.add({text: '', token_ids: [2], accepted_drafts: [true]});
        view.add({text: 'é', token_ids: [3], accepted_drafts: [false]});
      });""")
    page.wait("the text", lambda: page.text("#probe") == '<img src=x onerror="document.title=1">é')
    assert page.all("#probe img") == []
    assert [span.get_property("textContent") for span in page.all("#probe .drafted")] == ["é"]
    assert page.driver.title == "Mortise"


def test_errors_are_told_in_words(page):
    page.set("temperature", -1)
    page.ask(CHAT)
    page.wait("the error", lambda: page.find("#error").is_displayed())
    assert "temperature" in page.text("#error") and "status 400" in page.text("#error")
    assert page.find("#text").get_property("value") == CHAT  # nothing must be typed again
    assert page.all(".turn") == []


def test_a_pipeline_without_a_template_says_so(driver, pipeline, tmp_path):
    folder = tmp_path / "bare"
    shutil.copytree(SOURCE / "models/demo", folder, ignore=shutil.ignore_patterns("*.jinja"))
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config.pop("chat_template", None)
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    with live_server(pipeline(path=folder)) as running:
        page = Page(driver, running.url)
        page.ask(CHAT)
        page.wait("the error", lambda: page.find("#error").is_displayed())
        assert "chat_template(messages)" in page.text("#error") and "Choose Completion" in page.text("#error")
        page.choose_mode("completion")
        page.find("#text").clear()
        page.ask("Once upon a time")
        assert page.answer()


def test_a_server_that_goes_is_told(driver):
    running = LiveServer()
    page = Page(driver, running.url)
    page.wait("ready", lambda: page.text("#health") == "ready")
    running.end()
    page.ask(CHAT)
    page.wait("the error", lambda: "cannot be reached" in page.text("#error"))
    page.wait("the state", lambda: page.text("#health") == "the server does not answer")


def test_the_key_is_asked_once_and_kept_in_the_tab(driver):
    with live_server(env={"MORTISE_API_KEY": "secret"}) as running:
        page = Page(driver, running.url)
        page.wait("the question", lambda: page.find("#key_dialog").is_displayed())
        page.find("#key").send_keys("wrong" + Keys.ENTER)
        page.wait("the question again", lambda: "refused" in page.text("#key_why") and page.find("#key_dialog").is_displayed())
        page.find("#key").send_keys("secret" + Keys.ENTER)
        page.wait("ready", lambda: page.text("#health") == "ready")
        assert driver.execute_script("return [sessionStorage.length, localStorage.length]") == [1, 0]
        page.set("max_tokens", 5)
        page.ask(CHAT)
        page.answer()
        driver.execute_script("sessionStorage.clear()")


def test_the_status_shows_what_the_api_has(page, server):
    page.set("max_tokens", 30)
    page.ask(CHAT)
    page.answer()
    model = server.get("/status")["models"][0]
    # In one go: the page makes the rows anew each second.
    rows = "return [...document.querySelectorAll('#parts tr')].map(row => [...row.cells].map(cell => cell.innerText))"
    parts = [[part["role"], part["name"], part["version"], part["file"], part["hash"][:12]] for part in model["parts"]]
    page.wait("the parts", lambda: page.driver.execute_script(rows) == parts)
    page.wait("acceptance", lambda: len(page.all(".position")) == len(model["speculation"][0]["by_position"]))
    page.wait("the blocks", lambda: f"free of {model['blocks']['total']} blocks" in page.text("#kv_words"))
    page.wait("the batch", lambda: f"{model['last_step']['draft_rows']} draft rows" in page.text("#batch_words"))
    page.wait("the rate", lambda: page.text("#tokens_per_s").isdigit())


PARTS = "return [...document.querySelectorAll('#parts tr')].map(row => [...row.cells].map(cell => cell.innerText))"
EVENTS = "return [...document.querySelectorAll('#events tr')].map(row => [...row.cells].map(cell => cell.innerText))"
# What the page sends from here on.
SPY = """window.sent = []; const fetch = window.fetch; window.fetch = (path, more) => {
  window.sent.push([path, more?.method ?? "GET", more?.body ?? "", more?.headers ?? {}]); return fetch(path, more); }"""


def fill_swap(page, part, plugin="", options="", verify_steps="", key=None):
    Select(page.find("#swap_part")).select_by_visible_text(part)
    for name, value in {"swap_plugin": plugin, "swap_options": options, "verify_steps": verify_steps}.items():
        page.find("#" + name).clear()
        page.find("#" + name).send_keys(value)
    if key is not None:
        page.find("#admin_key").clear()
        page.find("#admin_key").send_keys(key)


def outcome_of_swap(page):
    page.find("#swap").click()
    page.wait("the outcome", lambda: page.text("#outcome") not in ("", "swapping") and page.find("#swap").is_enabled())
    return page.find("#outcome").get_attribute("data-state"), page.text("#outcome")


def test_a_part_is_swapped_while_streams_run(driver, always_drafting):
    body = {"prompt": "Once upon a time", "max_tokens": 1500, "temperature": 1, "seed": 21, "ignore_eos": True}
    with live_server(always_drafting) as running:
        whole = running.post("/v1/completions", body)["choices"][0]["text"]
        ends, others = threading.Event(), []

        def load():
            while not ends.is_set():
                others.append(running.post("/v1/completions", body)["choices"][0]["text"])

        threads = [threading.Thread(target=load) for _ in range(3)]
        for thread in threads:
            thread.start()
        proxy = CuttingProxy(running.port)
        try:
            page = Page(driver, f"http://127.0.0.1:{proxy.port}")
            page.choose_mode("completion")
            page.find("#ignore_eos").click()
            for name in ("max_tokens", "temperature", "seed"):
                page.set(name, body[name])
            fill_swap(page, "attention", "cascade", '{"block_size": 32}')
            page.ask(body["prompt"])
            page.wait("the first tokens", lambda: page.all(".turn.assistant .token"))
            state, words = outcome_of_swap(page)
            assert state == "ok" and words.startswith("Swapped: attention cascade; generation 1, took "), words
            assert "largest gap" in words
            page.wait("the part", lambda: "cascade" in [row[1] for row in page.driver.execute_script(PARTS)])
            page.wait("the event", lambda: page.driver.execute_script(EVENTS)[0][1] == "swap")
            assert 'attention cascade {"block_size":32}; by 127.0.0.1; generation 1' in page.driver.execute_script(EVENTS)[0][2]
            assert page.answer() == whole  # the product's promise
            assert page.errors_of_scripts() == []
        finally:
            ends.set()
            proxy.close()
            for thread in threads:
                thread.join()
        assert set(others) == {whole}
        served = {part["role"]: part for part in running.get("/admin/parts")["models"][0]["parts"]}
        assert served["attention"]["name"] == "cascade"


def test_a_refused_swap_says_why_and_changes_nothing(driver):
    with live_server() as running:
        page = Page(driver, running.url)
        page.wait("the parts", lambda: page.driver.execute_script(PARTS))
        before = page.driver.execute_script(PARTS)
        page.wait("no events", lambda: page.text("#events_words") == "nothing has changed yet")
        fill_swap(page, "scheduler", "fcsf")
        state, words = outcome_of_swap(page)
        assert state == "bad" and "did you mean 'fcfs'?" in words and "status 400" in words
        page.wait("the event", lambda: page.driver.execute_script(EVENTS)[0][1] == "swap refused")
        assert "did you mean 'fcfs'?" in page.driver.execute_script(EVENTS)[0][2]
        page.driver.execute_script("document.getElementById('outcome').textContent = ''")
        fill_swap(page, "scheduler", "fcfs", "{max_num_seqs = 3}")
        state, words = outcome_of_swap(page)
        assert state == "bad" and words.startswith('The options are not JSON, as in {"block_size": 16}: ')
        assert page.driver.execute_script(PARTS) == before
        assert page.errors_of_scripts() == []


def test_the_admin_key_is_sent_and_kept_nowhere(driver):
    with live_server(env={"MORTISE_ADMIN_KEY": "of-the-admin"}) as running:
        page = Page(driver, running.url)
        page.wait("what is missing", lambda: "needs an admin key" in page.text("#events_words"))
        page.driver.execute_script(SPY)
        fill_swap(page, "scheduler", "prefix_group", '{"max_num_seqs": 8}')
        state, words = outcome_of_swap(page)
        assert state == "bad" and "needs an admin key" in words
        page.driver.execute_script("document.getElementById('outcome').textContent = ''")
        fill_swap(page, "scheduler", "prefix_group", '{"max_num_seqs": 8}', key="of-the-admin")
        state, words = outcome_of_swap(page)
        assert state == "ok", words
        page.wait("the event", lambda: [row[1] for row in page.driver.execute_script(EVENTS)] == ["swap"])
        assert driver.current_url == running.url + "/"
        assert driver.execute_script("return [sessionStorage.length, localStorage.length]") == [0, 0]
        sent = [call for call in driver.execute_script("return window.sent") if call[1] == "POST"]
        assert [call[0] for call in sent] == ["admin/swap", "admin/swap"]
        assert json.loads(sent[1][2]) == {"part": "scheduler", "plugin": "prefix_group", "options": {"max_num_seqs": 8},
                                          "model": "demo"}
        assert sent[1][3]["Authorization"] == "Bearer of-the-admin" and "Authorization" not in sent[0][3]
        assert not any("of-the-admin" in call[0] for call in driver.execute_script("return window.sent"))


def test_steps_to_verify_are_sent_when_they_are_filled_in(page):
    page.driver.execute_script(SPY)
    fill_swap(page, "proposer", "nothing", verify_steps="5")
    outcome_of_swap(page)
    sent = [json.loads(call[2]) for call in page.driver.execute_script("return window.sent") if call[1] == "POST"]
    assert [body["verify_steps"] for body in sent] == [5]


def test_another_site_may_not_swap(server):
    body = {"part": "scheduler", "plugin": "fcfs"}
    for origin in ("http://evil.example", "https://127.0.0.1.evil.example", "null"):
        assert server.ask("POST", "/admin/swap", body, {"Origin": origin})[0] == 403
    assert server.ask("POST", "/admin/swap", body, {"Origin": server.url})[0] == 200


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_and_reads_in_the_dark(page, width, scheme):
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False})
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
    try:
        page.set("max_tokens", 40)
        page.ask(CHAT)
        page.answer()
        assert page.driver.execute_script("return document.documentElement.scrollWidth") <= width
        talk, aside = page.find("#talk").rect, page.find("aside").rect
        assert (aside["y"] >= talk["y"] + talk["height"]) if width == 390 else (aside["x"] >= talk["x"] + talk["width"])
        ink = page.find(".said").value_of_css_property("color")
        assert (int(ink.split("(")[1].split(",")[0]) > 128) == (scheme == "dark")
    finally:
        page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
