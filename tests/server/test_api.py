"""What the API promises, asked of the application itself; processes and kills are in test_storm."""

import json
from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")

import httpx

import onkel
from onkel.persist import dumps, loads
from onkel.server import app as server
from onkel.server import keys

from .asking import Asking

rng = np.random.default_rng(0)
X = rng.normal(size=(300, 3))
Y = np.where(X[:, 0] * X[:, 1] > 0, "same", "different").tolist()


@pytest.fixture
def ask(tmp_path):
    with Asking(tmp_path / "models") as asking:
        yield asking


@pytest.fixture
def mine(ask):
    assert ask.put("/v1/models/mine", {"task": "classes", "params": {"budget": 20}}).status_code == 201
    return ask


def learned(ask, n, first=0, name="mine", **more):
    body = {"rows": X[first : first + n].tolist(), "labels": Y[first : first + n], **more}
    answer = ask.post(f"/v1/models/{name}/learn", body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def loop(n, budget=20):
    """The same model in a plain loop, and what it said of each row before learning it."""
    model, said = onkel.KernelClassifier(budget=budget), []
    for x, y in zip(X[:n], Y[:n]):
        said.append(str(model.predict_one(x)) if said else None)
        model.learn_one(x, y)
    return model, said


def test_learning_is_a_plain_loop_to_the_bit_however_it_is_cut(mine):
    told = []
    for first, n in ((0, 1), (1, 149), (150, 50)):
        told += [one["prediction"] for one in learned(mine, n, first)["predictions"]]
    model, said = loop(200)
    assert told == said
    assert mine.get("/v1/models/mine/state").content == dumps(model)
    about = mine.get("/v1/models/mine").json()
    assert about["step"] == 200
    assert about["error"] == pytest.approx(np.mean([a != b for a, b in zip(said, Y)]))
    assert about["no_change"] == pytest.approx(np.mean([a != b for a, b in pairwise(Y[:200])]))


def test_predicting_learns_nothing_and_labels_may_come_later(mine):
    learned(mine, 100)
    before = mine.get("/v1/models/mine/state").content
    answer = mine.post("/v1/models/mine/predict", {"rows": X[100:104].tolist()}).json()
    assert (answer["model"], answer["step"]) == ("mine", 100)
    for one in answer["predictions"]:
        assert set(one) == {"id", "prediction", "probabilities", "ask"}
        assert max(one["probabilities"], key=one["probabilities"].get) == one["prediction"]
    assert mine.get("/v1/models/mine/state").content == before
    ids = [one["id"] for one in answer["predictions"]]
    wrong = ["same" if one["prediction"] == "different" else "different" for one in answer["predictions"]]
    late = mine.post("/v1/models/mine/labels", {"ids": [*ids, "never", ids[0]], "labels": [*wrong, "same", "same"]})
    assert late.status_code == 200
    assert (late.json()["step"], late.json()["learned"]) == (104, 4)
    assert [one["id"] for one in late.json()["rejected"]] == ["never", ids[0]]
    about = mine.get("/v1/models/mine").json()
    assert about["predictions"] == {"labelled": 4, "late": 0, "unknown": 1, "expired": 0}
    again = mine.post("/v1/models/mine/labels", {"ids": ids, "labels": wrong}).json()
    assert again["learned"] == 0
    assert "already" in again["rejected"][0]["reason"]
    model, said = loop(100)
    for x, y in zip(X[100:104], wrong):
        model.learn_one(x, y)
    assert mine.get("/v1/models/mine/state").content == dumps(model)
    assert about["error"] == pytest.approx((sum(a != b for a, b in zip(said, Y)) + 4) / 104)


def test_labels_after_their_time_are_told(tmp_path):
    with Asking(tmp_path, expire=0.0) as ask:
        ask.put("/v1/models/mine", {"task": "classes"})
        learned(ask, 100)
        one = ask.post("/v1/models/mine/predict", {"rows": [X[0].tolist()]}).json()["predictions"][0]["id"]
        ask.server.writer.swept = -1e9
        learned(ask, 1)
        answer = ask.post("/v1/models/mine/labels", {"ids": [one], "labels": ["same"]}).json()
        assert "too late" in answer["rejected"][0]["reason"]
        assert ask.get("/v1/models/mine").json()["predictions"]["late"] == 1
        assert ask.get("/v1/models/mine").json()["predictions"]["expired"] == 1


def test_retries_learn_once(mine):
    headers = {"Idempotency-Key": "first"}
    body = {"rows": X[:5].tolist(), "labels": Y[:5], "ids": list("abcde")}
    answers = [mine.post("/v1/models/mine/learn", body, headers) for _ in range(3)]
    assert len({answer.text for answer in answers}) == 1
    assert mine.post("/v1/models/mine/learn", {**body, "labels": Y[5:10]}, headers).status_code == 409
    by_id = mine.post("/v1/models/mine/learn", {"rows": X[:7].tolist(), "labels": Y[:7], "ids": list("abcdefg")}).json()
    assert by_id["step"] == 7
    assert by_id["predictions"][:5] == answers[0].json()["predictions"]
    clash = mine.post("/v1/models/mine/learn", {"rows": X[7:8].tolist(), "labels": Y[7:8], "ids": ["a"]})
    assert clash.status_code == 409
    assert "'a'" in clash.json()["detail"]
    assert mine.get("/v1/models/mine").json()["step"] == 7


def test_time_travel_and_going_back(mine):
    states = []
    for first in range(0, 120, 40):
        learned(mine, 40, first)
        states.append((first + 40, mine.get("/v1/models/mine/state").content, mine.get("/v1/models/mine").json()))
    for step, content, about in states:
        then = mine.get(f"/v1/models/mine/state?step={step}")
        assert then.content == content
        assert then.headers["x-onkel-hash"] == about["hash"]
    assert mine.get("/v1/models/mine/state?step=121").status_code == 422
    assert loads(mine.get("/v1/models/mine/state?step=0").content).get_params() == onkel.KernelClassifier(budget=20).get_params()
    assert mine.post("/v1/models/mine/rollback", {"step": 40}).json()["hash"] == states[0][2]["hash"]
    about = mine.get("/v1/models/mine").json()
    assert {**about, "bytes": 0} == {**states[0][2], "bytes": 0}
    learned(mine, 40, 40)
    assert mine.get("/v1/models/mine/state").content == states[1][1]


def test_shadows_see_the_same_and_are_promoted(mine):
    learned(mine, 50)
    assert mine.put("/v1/models/next", {"task": "classes", "params": {"budget": 200}, "shadow_of": "mine"}).status_code == 201
    learned(mine, 150, 50)
    alone = onkel.KernelClassifier(budget=200)
    wrong = [None, None]
    for x, y in zip(X[50:200], Y[50:200]):
        alone.learn_one(x, y)
    assert mine.get("/v1/models/next/state").content == dumps(alone)
    about = {model["name"]: model for model in mine.get("/v1/models").json()["models"]}
    assert about["next"]["shadow_of"] == "mine"
    beside = about["next"]["beside"]
    assert beside["pairs"] == 150
    assert 0 < beside["better"] + beside["worse"] < 150
    assert 0 < beside["p_value"] <= 1
    assert wrong == [None, None]
    refused = mine.post("/v1/models/next/learn", {"rows": X[:1].tolist(), "labels": Y[:1]})
    assert refused.status_code == 409
    assert mine.delete("/v1/models/mine").status_code == 409
    before = {name: mine.get(f"/v1/models/{name}/state").content for name in ("mine", "next")}
    assert mine.post("/v1/models/next/promote").status_code == 200
    assert mine.get("/v1/models/mine/state").content == before["next"]
    assert mine.get("/v1/models/next/state").content == before["mine"]
    assert mine.get("/v1/models/next").json()["shadow_of"] == "mine"
    learned(mine, 10, 200)
    assert mine.get("/v1/models/next").json()["step"] == 210
    assert mine.delete("/v1/models/next").status_code == 200
    assert mine.delete("/v1/models/mine").status_code == 200
    assert mine.get("/v1/models").json() == {"models": []}


def test_forgetting_is_a_run_that_never_saw_them(mine, tmp_path):
    learned(mine, 100, ids=[f"row {i}" for i in range(100)])
    mine.put("/v1/models/next", {"task": "classes", "params": {"budget": 30}, "shadow_of": "mine"})
    learned(mine, 50, 100, ids=[f"row {i}" for i in range(100, 150)])
    gone = [120, 101, 149]
    secret = X[gone[0]].tobytes()
    folder = tmp_path / "models"
    assert any(secret in file.read_bytes() for file in folder.iterdir())
    answer = mine.request("DELETE", "/v1/models/mine/examples", {"ids": [*(f"row {i}" for i in gone), "nobody"]})
    assert answer.status_code == 200, answer.text
    told = answer.json()
    assert (sorted(told["forgotten"]), told["unknown"], told["step"]) == (sorted(f"row {i}" for i in gone), ["nobody"], 147)
    kept = [i for i in range(150) if i not in gone]
    model, shadow = onkel.KernelClassifier(budget=20), onkel.KernelClassifier(budget=30)
    for i in kept:
        model.learn_one(X[i], Y[i])
        if i >= 100:
            shadow.learn_one(X[i], Y[i])
    assert mine.get("/v1/models/mine/state").content == dumps(model)
    assert mine.get("/v1/models/next/state").content == dumps(shadow)
    assert mine.get("/v1/models/mine/state?step=118").status_code == 200
    assert told["certificates"][0]["stream_digest"] == mine.get("/v1/models/mine").json()["hash"]
    assert not any(secret in file.read_bytes() for file in folder.iterdir())  # neither the log nor what is behind it
    assert mine.request("DELETE", "/v1/models/mine/examples", {"ids": ["row 120"]}).status_code == 404
    early = mine.request("DELETE", "/v1/models/mine/examples", {"ids": ["row 3"]})
    assert early.status_code == 409
    assert "next" in early.json()["detail"]
    learned(mine, 20, 150)
    for x, y in zip(X[150:170], Y[150:170]):
        model.learn_one(x, y)
    assert mine.get("/v1/models/mine/state").content == dumps(model)


@pytest.mark.parametrize(
    ("task", "labels", "keys"),
    [
        ("classes", [True, False], {"prediction", "probabilities"}),
        ("classes", [3, 7], {"prediction", "probabilities"}),
        ("reals", [0.5, 2.0], {"prediction", "score", "interval"}),
        ("novelty", None, {"prediction", "score", "alert"}),
    ],
)
def test_every_task(ask, task, labels, keys):
    ask.put("/v1/models/m", {"task": task})
    body = {"rows": [{"b": 1.0, "a": i} for i in range(120)]}
    if labels:
        body["labels"] = [labels[i % 2] for i in range(120)]
    first = ask.post("/v1/models/m/learn", body).json()
    assert set(first["predictions"][0]) == keys
    assert first["predictions"][0]["prediction"] is None
    told = ask.post("/v1/models/m/predict", {"rows": [{"a": 2, "b": 1.0}]}).json()["predictions"][0]
    assert keys < set(told)
    if task == "classes":
        assert told["prediction"] in labels
        assert type(told["prediction"]) is type(labels[0])
    about = ask.get("/v1/models/m").json()
    assert about["schema"]["features"] == ["a", "b"]
    assert about["error"] is not None


def test_uploaded_models_go_on(ask):
    model, _ = loop(150)
    answer = ask.raw("PUT", "/v1/models/mine", dumps(model), {"Content-Type": "application/octet-stream"})
    assert answer.status_code == 201, answer.text
    learned(ask, 50, 150)
    assert ask.get("/v1/models/mine/state").content == dumps(loop(200)[0])
    bad = ask.raw("PUT", "/v1/models/other", b"PK no model", {"Content-Type": "application/octet-stream"})
    assert bad.status_code == 422
    learner = onkel.silk(onkel.RBF(1.0), onkel.Hinge(), budget=5)
    pair = ask.raw("PUT", "/v1/models/other", dumps((learner, learner.init())), {"Content-Type": "application/octet-stream"})
    assert pair.status_code == 422
    assert "KernelClassifier" in pair.json()["detail"]


def test_models_that_do_not_fit_wait_on_the_disk(tmp_path):
    with Asking(tmp_path, memory=40_000) as ask:
        names = [f"m{i}" for i in range(6)]
        for i, name in enumerate(names):
            ask.put(f"/v1/models/{name}", {"task": "classes", "params": {"budget": 20 + i}})
            learned(ask, 120, name=name)
        before = {name: ask.get(f"/v1/models/{name}/state").content for name in names}
        ask.server.writer.swept = -1e9
        learned(ask, 1, 120, name="m0")
        loaded = [served for served in ask.server.shelf.entries.values() if served.model is not None]
        assert ask.server.shelf.bytes <= 40_000
        assert 0 < len(loaded) < 6
        for name in names[1:]:
            assert ask.get(f"/v1/models/{name}/state").content == before[name]
            assert ask.get(f"/v1/models/{name}").json()["bytes"] > 0


def test_the_log_is_kept_as_long_as_was_asked(tmp_path, monkeypatch):
    monkeypatch.setattr("onkel.server.writer.SNAPSHOT_EVERY", 40)
    with Asking(tmp_path, keep_log=100) as ask:
        ask.put("/v1/models/mine", {"task": "classes", "params": {"budget": 20}})
        states = {}
        for first in range(0, 300, 20):
            learned(ask, 20, first)
            states[first + 20] = ask.get("/v1/models/mine/state").content
        assert ask.get("/v1/models/mine/state?step=20").status_code == 410
        for step in (200, 240, 280, 300):
            assert ask.get(f"/v1/models/mine/state?step={step}").content == states[step]
        with ask.server.journal.reader() as journal:
            assert 100 < journal.first_step(1, 300) < 200
            assert len(journal.snapshot_steps(1)) < 6


def test_asking_for_labels_where_they_pay(ask):
    ask.put("/v1/models/mine", {"task": "classes", "ask": 0.2})
    learned(ask, 200)
    asked, margins = [], []
    for x in rng.normal(size=(600, 3)):
        one = ask.post("/v1/models/mine/predict", {"rows": [x.tolist()]}).json()["predictions"][0]
        chances = sorted(one["probabilities"].values())
        asked.append(one["ask"])
        margins.append(chances[-1] - chances[-2])
    asked, margins = np.array(asked[200:]), np.array(margins[200:])
    assert 0.12 < asked.mean() < 0.28
    assert margins[asked].mean() < 0.5 * margins[~asked].mean()


BAD = [
    ("learn", {"rows": [[1, 2]], "labels": ["same"]}, 422, "3"),
    ("learn", {"rows": [{"a": 1, "b": 2, "c": 3}], "labels": ["same"]}, 422, "lists"),
    ("learn", {"rows": [[1, 2, "x"]], "labels": ["same"]}, 422, "value 2"),
    ("learn", {"rows": [[1, 2, None]], "labels": ["same"]}, 422, "value 2"),
    ("learn", {"rows": [[1, 2, 10**400]], "labels": ["same"]}, 422, ""),
    ("learn", {"rows": [[1, 2, 3]], "labels": [1]}, 422, "string"),
    ("learn", {"rows": [[1, 2, 3]], "labels": [["same"]]}, 422, "labels[0]"),
    ("learn", {"rows": [[1, 2, 3]]}, 422, "labels"),
    ("learn", {"rows": [[1, 2, 3]], "labels": []}, 422, "labels"),
    ("learn", {"rows": [[1, 2, 3]] * 2, "labels": ["same"]}, 422, "2"),
    ("learn", {"rows": [[1, 2, 3]] * 2, "labels": ["same"] * 2, "ids": ["a", "a"]}, 422, "differ"),
    ("learn", {"rows": [[1, 2, 3]], "labels": ["same"], "weights": [-1]}, 422, "weights"),
    ("learn", {"rows": [[1, 2, 3]], "labels": ["same"], "color": 1}, 422, "color"),
    ("learn", [1], 422, "object"),
    ("predict", {"rows": []}, 422, "rows"),
    ("predict", {}, 422, "rows"),
    ("labels", {"ids": ["x"], "labels": [3]}, 422, "string"),
    ("labels", {"ids": ["x", "y"], "labels": ["same"]}, 422, "2"),
    ("rollback", {"step": 51}, 422, "50"),
    ("rollback", {"step": -1}, 422, "step"),
    ("promote", {}, 409, "shadow"),
]


@pytest.mark.parametrize(("route", "body", "status", "says"), BAD, ids=range(len(BAD)))
def test_bad_requests_change_nothing(mine, route, body, status, says):
    learned(mine, 50)
    before = mine.get("/v1/models/mine").json()
    answer = mine.post(f"/v1/models/mine/{route}", body)
    assert answer.status_code == status, answer.text
    assert set(answer.json()) == {"error", "detail"}
    assert says in answer.json()["detail"]
    assert mine.get("/v1/models/mine").json() == before


def test_one_bad_row_keeps_the_others_out_and_others_in(mine):
    """All rows of a request or none, and a request that fails half-way takes nobody else with it."""
    learned(mine, 50)
    body = {"rows": [*X[50:55].tolist(), [1, 2]], "labels": Y[50:56]}
    assert mine.post("/v1/models/mine/learn", body).status_code == 422
    answers = mine.together(
        [
            ("learn", {"rows": X[50:52].tolist(), "labels": Y[50:52]}),
            ("learn", body),
            ("learn", {"rows": X[52:54].tolist(), "labels": Y[52:54]}),
        ]
    )
    assert [answer.status_code for answer in answers] == [200, 422, 200]
    assert mine.get("/v1/models/mine").json()["step"] == 54


def test_bodies_that_are_not_json(mine):
    for content, status in ((b"{", 400), (b"\xff", 400), (b'{"rows": [[NaN, 1, 2]]}', 422), (b"[" * 100_000, 422), (b"", 400)):
        answer = mine.raw("POST", "/v1/models/mine/predict", content, {"Content-Type": "application/json"})
        assert answer.status_code == status
        assert set(answer.json()) == {"error", "detail"}


def test_names_and_parameters_of_models(ask):
    for body, says in (
        ({"task": "classes", "params": {"budgets": 5}}, "budgets"),
        ({"task": "classes", "params": {"budget": 10**9}}, "budget"),
        ({"task": "classes", "params": {"budget": None}}, "budget"),
        ({"task": "classes", "params": {"kernel": "fourier"}}, "fourier"),
        ({"task": "classes", "params": {"eta": -1}}, "eta"),
        ({"task": "classes", "params": {"drift": "x"}}, "drift"),
        ({"task": "poems"}, "task"),
        ({}, "task"),
        ({"task": "classes", "schema": {"classes": ["a", 1]}}, "classes"),
        ({"task": "classes", "shadow_of": "nobody"}, "nobody"),
    ):
        answer = ask.put("/v1/models/mine", body)
        assert answer.status_code in (404, 422), (body, answer.text)
        assert says in answer.json()["detail"]
    for name in (".hidden", "a b", "x" * 65, "é"):
        assert ask.put(f"/v1/models/{name}", {"task": "classes"}).status_code == 422
    assert ask.put("/v1/models/mine", {"task": "classes"}).status_code == 201
    assert ask.put("/v1/models/mine", {"task": "classes"}).status_code == 200  # a retry
    assert ask.put("/v1/models/mine", {"task": "reals"}).status_code == 409
    assert ask.get("/v1/models/other").status_code == 404
    assert ask.post("/v1/models/other/learn", {"rows": [[1]], "labels": ["a"]}).status_code == 404


def test_a_schema_is_kept_to(ask):
    schema = {"features": ["height", "width"], "classes": ["a", "b"]}
    ask.put("/v1/models/m", {"task": "classes", "schema": schema})
    good = {"rows": [{"width": 2, "height": 1}, [1, 2]], "labels": ["a", "b"]}
    assert ask.post("/v1/models/m/learn", good).status_code == 200
    unknown = ask.post("/v1/models/m/predict", {"rows": [{"width": 1, "depth": 2}]})
    assert "depth" in unknown.json()["detail"]
    missing = ask.post("/v1/models/m/predict", {"rows": [{"width": 1}]})
    assert "height" in missing.json()["detail"]
    assert ask.post("/v1/models/m/learn", {"rows": [[1, 2]], "labels": ["c"]}).status_code == 422


def test_keys_and_scopes(tmp_path):
    path = tmp_path / "keys.json"
    held = {scope: keys.add(path, scope, scope) for scope in keys.SCOPES}
    assert all(key not in path.read_text() for key in held.values())
    assert path.stat().st_mode & 0o077 == 0
    wanted = [("GET", "/v1/models", "read"), ("POST", "/v1/models/m/predict", "read"), ("POST", "/v1/models/m/learn", "learn"),
              ("POST", "/v1/models/m/labels", "learn"), ("PUT", "/v1/models/m", "admin"), ("DELETE", "/v1/models/m", "admin"),
              ("POST", "/v1/models/m/rollback", "admin"), ("GET", "/metrics", "read"), ("GET", "/v1/models/m/state", "read"),
              ("DELETE", "/v1/models/m/examples", "admin"), ("POST", "/v1/models/m/promote", "admin")]  # fmt: skip
    with Asking(tmp_path / "models", keys=path) as ask:
        for method, route, scope in wanted:
            for who in (None, "wrong", *keys.SCOPES):
                headers = {} if who is None else {"Authorization": f"Bearer {held.get(who, 'onkel_wrong')}"}
                status = ask.raw(method, route, b"{}", headers).status_code
                if who in held and keys.allows(who, scope):
                    assert status not in (401, 403), (method, route, who)
                else:
                    assert status == (403 if who in held else 401), (method, route, who)
        assert ask.get("/healthz").status_code == 200
        keys.remove(path, "admin")
        assert ask.raw("PUT", "/v1/models/m", b"{}", {"Authorization": f"Bearer {held['admin']}"}).status_code == 401


def test_other_pages_may_not_ask(tmp_path):
    with Asking(tmp_path, origins=["https://app.example"], hosts=["localhost", "127.0.0.1"]) as ask:
        assert ask.get("/v1/models", {"Origin": "https://evil.example"}).status_code == 403
        allowed = ask.get("/v1/models", {"Origin": "https://app.example"})
        assert allowed.headers["access-control-allow-origin"] == "https://app.example"
        assert "access-control-allow-origin" not in ask.get("/v1/models").headers
        assert ask.get("/v1/models", {"Host": "evil.example"}).status_code == 421
        assert ask.get("/v1/models", {"Host": "localhost:8700"}).status_code == 200


def test_limits(tmp_path):
    with Asking(tmp_path, body=10_000, models=1) as ask:
        ask.put("/v1/models/mine", {"task": "classes"})
        large = ask.post("/v1/models/mine/predict", {"rows": [[0.123456789] * 10] * 1000})
        assert large.status_code == 413
        assert ask.put("/v1/models/other", {"task": "classes"}).status_code == 507


def test_a_full_queue_says_when_to_come_back(mine, monkeypatch):
    learned(mine, 10)
    monkeypatch.setattr(mine.server.writer.queue, "_maxsize", 1)
    answers = mine.together([("learn", {"rows": X[:1].tolist(), "labels": Y[:1]})] * 40)
    statuses = [answer.status_code for answer in answers]
    assert set(statuses) == {200, 503}
    assert all(answer.headers["retry-after"] for answer in answers if answer.status_code == 503)
    assert mine.get("/v1/models/mine").json()["step"] == 10 + statuses.count(200)


def test_metrics_and_health(mine):
    learned(mine, 30)
    text = mine.get("/metrics").text
    assert 'onkel_steps{model="mine"} 30.0' in text
    assert 'onkel_requests_total{route="/v1/models/{name}/learn",status="200"} 1.0' in text
    assert mine.get("/readyz").json() == {"status": "ready"}
    assert mine.get("/healthz").json() == {"status": "alive"}


def test_every_answer_has_an_id_and_the_page_speaks_to_no_other_host(mine):
    assert mine.get("/healthz", {"X-Request-Id": "abc"}).headers["x-request-id"] == "abc"
    assert len(mine.get("/healthz", {"X-Request-Id": "a b\n"[:3]}).headers["x-request-id"]) == 16
    for path in ("/", "/docs"):
        page = mine.get(path)
        assert page.status_code == 200
        assert "default-src 'self'" in page.headers["content-security-policy"]
        assert "http://" not in page.text.replace("http://www.w3.org", "")
        assert "https://" not in page.text
    for file in ("app.js", "docs.js", "style.css", "uPlot.min.js", "uPlot.LICENSE"):
        assert mine.get(f"/page/{file}").status_code == 200


def test_a_second_server_on_the_same_folder_is_refused(mine, tmp_path):
    with pytest.raises(ValueError, match="another onkel serve"):
        server.Server(server.Options(tmp_path / "models"))


def test_the_description_of_the_api_is_whole(mine):
    api = mine.get("/openapi.json").json()
    for path, methods in api["paths"].items():
        for method, route in methods.items():
            assert route["summary"], (method, path)
            assert {"401", "403", "404", "422", "503"} <= set(route["responses"])
    assert json.dumps(api)
    assert isinstance(httpx.__version__, str)
