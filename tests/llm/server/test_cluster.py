"""Replicas of a server on a Ray cluster of two nodes: one address, requests that begin alike on one replica."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import openai
import pytest
from small_models import small_model

import relax
from relax.llm.server.cluster import PREFIX, Replicas, prefix_of, start_replicas

EXAMPLE = Path(__file__).parents[3] / "examples" / "llm" / "answer_a_dataset.py"


def body(*texts, **fields):
    roles = ("system", "user", "assistant", "user")
    messages = [{"role": role, "content": text} for role, text in zip(roles, texts, strict=False)]
    return json.dumps({"messages": messages, **fields}).encode()


def test_turns_of_a_conversation_have_one_prefix():
    system = "You are a helpful assistant. " * 30
    assert len(system) > PREFIX
    first = prefix_of(body(system, "Hello"))
    assert first == prefix_of(body(system, "Hello", "Hi!", "How are you?"))
    assert first == prefix_of(body(system, "Another question"))
    assert first != prefix_of(body("Another assistant. " * 30, "Hello"))


@pytest.mark.parametrize("data", [b"", b"[1]", b"{", b'{"model": "m"}', b"\xff", b"[" * 100_000])
def test_what_is_no_request_has_no_prefix(data):
    assert prefix_of(data) == ""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model with a context that takes prompts longer than a prefix."""
    made = small_model(tmp_path_factory.mktemp("llama"))
    settings = json.loads((made / "config.json").read_text())
    (made / "config.json").write_text(json.dumps({**settings, "max_position_embeddings": 1024}))
    return made


@pytest.fixture(scope="module")
def address(folder):
    """URL of two replicas, each on a node of its own."""
    ray = pytest.importorskip("ray", reason="ray is not installed: pip install relax[ray]")
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    serve = pytest.importorskip("ray.serve")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    cluster = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False, logging_level="warning")
    serving = {"name": "small", "api_keys": ["secret"]}
    try:
        replicas = Replicas(str(folder), 2, loading={"cache_tokens": 8192}, serving=serving)
        start_replicas(replicas, "127.0.0.1", port, drain_seconds=1.0)
        yield f"http://127.0.0.1:{port}/v1"
        serve.shutdown()
    finally:
        ray.shutdown()
        cluster.shutdown()


@pytest.fixture
def client(address):
    return openai.OpenAI(base_url=address, api_key="secret", max_retries=0)


def completed(client, prompt, count=4):
    return client.completions.create(model="small", prompt=prompt, max_tokens=count, temperature=0)


@pytest.mark.slow
def test_replicas_answer_as_the_model_does(client, folder):
    model = relax.llm.load(folder)
    for prompt in ("Hello", "The sky is", "x" * 60):
        assert completed(client, prompt).choices[0].text == model.generate(prompt, max_new_tokens=4)
    chunks = client.completions.create(model="small", prompt="Hello", max_tokens=4, temperature=0, stream=True)
    text = "".join(chunk.choices[0].text for chunk in chunks if chunk.choices)
    assert text == model.generate("Hello", max_new_tokens=4)


@pytest.mark.slow
def test_the_cluster_has_a_replica_on_each_node(client):
    state = pytest.importorskip("ray.util.state")
    actors = state.list_actors(filters=[("state", "=", "ALIVE")])
    nodes = {actor.node_id for actor in actors if "Replica:relax:Replica" in actor.class_name}
    assert len(nodes) == 2


@pytest.mark.slow
def test_requests_that_begin_alike_go_to_one_replica_once_it_is_known(client):
    prefix = "A system prompt that is the same for all of these requests. " * 9
    assert len(prefix) > PREFIX
    found = []
    for i in range(400):  # replicas tell Ray about prefixes now and then
        usage = completed(client, f"{prefix}{i}", 1).usage
        found.append(usage.prompt_tokens_details.cached_tokens > 0)
        if found[-8:] == [True] * 8:
            break
    assert found[-8:] == [True] * 8


@pytest.mark.slow
def test_refusals_of_replicas_reach_the_client(address, client):
    with pytest.raises(openai.AuthenticationError, match="API key"):
        openai.OpenAI(base_url=address, api_key="wrong", max_retries=0).models.list()
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        client.completions.create(model="other", prompt="a")
    with pytest.raises(openai.BadRequestError, match="maximum context length"):
        completed(client, "a" * 1500)
    with pytest.raises(openai.APIStatusError) as caught:
        completed(client, "a" * (9 << 20))
    assert caught.value.status_code == 413
    assert [model.id for model in client.models.list()] == ["small"]


@pytest.mark.slow
def test_a_replica_that_dies_is_replaced(client):
    ray = pytest.importorskip("ray")
    state = pytest.importorskip("ray.util.state")
    alive = [("state", "=", "ALIVE")]
    replicas = [a for a in state.list_actors(filters=alive, detail=True) if "Replica:relax:Replica" in a.class_name]
    os.kill(replicas[0].pid, 9)
    expected = completed(client, "Still here").choices[0].text
    for _ in range(20):
        assert completed(client, "Still here").choices[0].text == expected
    assert ray.is_initialized()


@pytest.mark.slow
def test_a_data_set_is_answered_by_several_workers(folder, tmp_path):
    pytest.importorskip("ray.data", reason="ray is not installed: pip install relax[ray]")
    parquet = pytest.importorskip("pyarrow.parquet")
    questions = [f"Question {i}" for i in range(100)]
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps({"question": text}) + "\n" for text in questions))
    files = [folder, tmp_path / "questions.jsonl", tmp_path / "answers"]
    # In a process of its own: Ray sends the script's class to its workers, but not classes of modules that tests import.
    # The cluster of the other tests has no processor left: "local" starts another one.
    subprocess.run([sys.executable, EXAMPLE, *files], check=True, env={**os.environ, "RAY_ADDRESS": "local"})
    rows = {row["question"]: row["answer"] for row in parquet.read_table(tmp_path / "answers").to_pylist()}
    assert len(rows) == 100
    model = relax.llm.load(folder)
    for question in questions[::25]:
        assert rows[question] == model.generate(question, max_new_tokens=32)
