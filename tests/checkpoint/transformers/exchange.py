# SPDX-License-Identifier: Apache-2.0
"""exchange.py export|import|transformers GPT2 ZERO_CHECKPOINT LOGITS

Models that gpt2 writes, read by the Python packages that others read them with, and models that
those write, read by gpt2. The oracle is a GPT-2 in double precision, written here from the paper's
equations, and transformers' own. Exit code 77, with the reason, where a package is missing.
"""
import json
import math
import os
import struct
import subprocess
import sys
import tempfile

LAYERS, WIDTH, HEADS, CONTEXT, VOCABULARY = 2, 16, 2, 16, 256
SIZES = dict(layers=LAYERS, width=WIDTH, heads=HEADS, context=CONTEXT)
# A text of 330 bytes: 18 samples to train on, of which a step takes all, and 2 to validate.
TEXT = (b"The quick brown fox jumps over the lazy dog; " * 8)[:330]
BATCH, RANKS = 9, 2

# Two programs that compute in floats and sum in other orders: every output of a block is a chain of
# eight sums of at most 64 terms, each off by at most 64 roundings of 2^-24, of numbers of about 1,
# and there are 2 blocks: 8 * 2 * 64 / 2^24 = 6e-5 at the very worst. Roundings that do not conspire
# grow with the root of their number, 16 * 8 / 2^24 = 8e-6, and the norms keep that of size 1.
FLOATS = 1e-5

failures = []


def skip(why):
    print("skipped: " + why)
    sys.exit(77)


try:
    import numpy as np
    import safetensors
    import safetensors.numpy as st
except ImportError as e:
    skip(f"{e}; pip install numpy safetensors")


def check(holds, what):
    print(("ok      " if holds else "FAILED  ") + what)
    if not holds:
        failures.append(what)


def close(found, expected, what, bound=FLOATS):
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    if found.shape != expected.shape:
        return check(False, f"{what}: shapes {found.shape} and {expected.shape}")
    worst = float(np.max(np.abs(found - expected) / np.maximum(1, np.abs(expected))))
    check(worst <= bound, f"{what}: {found.size} numbers, at most {worst:.2g} apart, bound {bound:g}")


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def gpt2(folder, *flags):
    """A run at stage 3 on two ranks in fp32. Returns its last line, and the loss of each step."""
    metrics = f"{folder}/metrics.jsonl"
    if os.path.exists(metrics):
        os.remove(metrics)
    sizes = [w for name, n in SIZES.items() for w in ("--" + name, n)]
    common = dict(text=f"{folder}/text", stage=3, ranks=RANKS, batch=BATCH, precision="fp32", metrics=metrics)
    given = [w for name, v in common.items() if f"--{name}" not in flags for w in ("--" + name, v)]
    out = run(GPT2, "--json", *sizes, *given, *flags)
    losses = [json.loads(line)["loss"] for line in open(metrics)]
    return json.loads(out.splitlines()[-1]), losses


def parts_of(text):
    """Ten stretches, the last tenth of each held back; README of examples says so."""
    place = lambda hundredth: len(text) // 100 * hundredth + len(text) % 100 * hundredth // 100
    training = b"".join(text[place(s):place(s + 9)] for s in range(0, 100, 10))
    validation = b"".join(text[place(s + 9):place(s + 10)] for s in range(0, 100, 10))
    return training, validation


def samples_of(text):
    """Inputs and targets, [samples, CONTEXT]."""
    n = (len(text) - 1) // CONTEXT
    ids = np.frombuffer(text, np.uint8).astype(np.int64)
    return ids[:n * CONTEXT].reshape(n, CONTEXT), ids[1:n * CONTEXT + 1].reshape(n, CONTEXT)


def shapes():
    """Name to shape, as transformers' GPT2LMHeadModel has them."""
    all_ = {"wte.weight": (VOCABULARY, WIDTH), "wpe.weight": (CONTEXT, WIDTH)}
    for layer in range(LAYERS):
        for name, shape in {"ln_1.weight": (WIDTH,), "ln_1.bias": (WIDTH,),
                            "attn.c_attn.weight": (WIDTH, 3 * WIDTH), "attn.c_attn.bias": (3 * WIDTH,),
                            "attn.c_proj.weight": (WIDTH, WIDTH), "attn.c_proj.bias": (WIDTH,),
                            "ln_2.weight": (WIDTH,), "ln_2.bias": (WIDTH,),
                            "mlp.c_fc.weight": (WIDTH, 4 * WIDTH), "mlp.c_fc.bias": (4 * WIDTH,),
                            "mlp.c_proj.weight": (4 * WIDTH, WIDTH), "mlp.c_proj.bias": (WIDTH,)}.items():
            all_[f"h.{layer}.{name}"] = shape
    all_.update({"ln_f.weight": (WIDTH,), "ln_f.bias": (WIDTH,)})
    return {"transformer." + name: shape for name, shape in all_.items()}


def forward(tensors, ids):
    """Logits of a GPT-2 in double precision, [samples, length, VOCABULARY]."""
    w = {name: np.asarray(t, np.float64) for name, t in tensors.items()}

    def norm(x, name):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)
        return x * w[name + ".weight"] + w[name + ".bias"]

    def linear(x, name):
        return x @ w[name + ".weight"] + w[name + ".bias"]

    n, length = ids.shape
    x = w["transformer.wte.weight"][ids] + w["transformer.wpe.weight"][:length]
    future = np.triu(np.full((length, length), -np.inf), 1)
    for layer in range(LAYERS):
        h = f"transformer.h.{layer}."
        q, k, v = np.split(linear(norm(x, h + "ln_1"), h + "attn.c_attn"), 3, axis=-1)
        heads = lambda t: t.reshape(n, length, HEADS, WIDTH // HEADS).transpose(0, 2, 1, 3)
        scores = heads(q) @ heads(k).transpose(0, 1, 3, 2) / math.sqrt(WIDTH // HEADS) + future
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = (scores / scores.sum(-1, keepdims=True)) @ heads(v)
        x = x + linear(mixed.transpose(0, 2, 1, 3).reshape(n, length, WIDTH), h + "attn.c_proj")
        y = linear(norm(x, h + "ln_2"), h + "mlp.c_fc")
        y = 0.5 * y * (1 + np.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3)))
        x = x + linear(y, h + "mlp.c_proj")
    return norm(x, "transformer.ln_f") @ w["transformer.wte.weight"].T


def loss_of(logits, targets):
    logits = logits - logits.max(-1, keepdims=True)
    logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return -np.take_along_axis(logs, targets[..., None], -1).mean()


def our_logits(model):
    """What zero computes from a model's folder for the first sample of validation."""
    ids = samples_of(parts_of(TEXT)[1])[0][0]
    lines = run(LOGITS, model, LAYERS, WIDTH, HEADS, CONTEXT, *ids).splitlines()
    return np.array([[float(x) for x in line.split()] for line in lines])


def random_tensors(seed):
    """Weights that no part of which is 0, so that no mistake hides."""
    rng = np.random.default_rng(seed)
    return {name: (rng.normal(1 if "ln" in name and name.endswith("weight") else 0, 0.1, shape))
            .astype(np.float32) for name, shape in shapes().items()}


def read_exact(path):
    """Tensors as (type, bytes), by the file's own words alone."""
    data = open(path, "rb").read()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    return {name: (e["dtype"], data[8 + length + e["data_offsets"][0]:8 + length + e["data_offsets"][1]])
            for name, e in header.items()}


def test_export(folder):
    """safetensors reads what zero writes, and the model in it is the one that was trained."""
    ours, _ = gpt2(folder, "--steps", 3, "--save", f"{folder}/run", "--export", f"{folder}/model")
    with safetensors.safe_open(f"{folder}/model/model.safetensors", "np") as file:
        check(file.metadata() == {"format": "pt"}, "the metadata is what transformers asks for")
        tensors = {name: file.get_tensor(name) for name in file.keys()}
    check({n: t.shape for n, t in tensors.items()} == shapes(), "names and shapes are GPT2LMHeadModel's")
    check(all(t.dtype == np.float32 for t in tensors.values()), "an fp32 run writes F32")
    config = json.load(open(f"{folder}/model/config.json"))
    check([config[k] for k in ("n_layer", "n_embd", "n_head", "n_positions", "vocab_size")] ==
          [LAYERS, WIDTH, HEADS, CONTEXT, VOCABULARY], "config.json has the sizes")
    inputs, targets = samples_of(parts_of(TEXT)[1])
    logits = forward(tensors, inputs)
    close(our_logits(f"{folder}/model"), logits[0], "logits against double precision")
    close(ours["validation_loss"], loss_of(logits, targets), "validation loss against double precision")
    # The tool writes the same from the checkpoint, and rounds it to nearest even.
    for dtype, name in ("fp32", "F32"), ("bf16", "BF16"), ("fp16", "F16"):
        run(TOOL, "export", f"{folder}/run", f"{folder}/{dtype}", "--dtype", dtype)
        found = read_exact(f"{folder}/{dtype}/model.safetensors")
        same = set(found) == set(tensors)
        for key, (type_, data) in found.items():
            bits = tensors[key].view(np.uint32).reshape(-1)
            expected = {"fp32": tensors[key].tobytes(), "fp16": tensors[key].astype(np.float16).tobytes(),
                        "bf16": ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16).tobytes()}[dtype]
            same = same and type_ == name and data == expected
        check(same, f"zero-checkpoint export --dtype {dtype}: every element, rounded to nearest even")
    check(all(st.load_file(f"{folder}/fp16/model.safetensors")[n].dtype == np.float16 for n in tensors),
          "safetensors reads 16 bits")


def test_import(folder):
    """zero reads what safetensors writes: in one file, in shards, and as the hub's gpt2 is named."""
    inputs, targets = samples_of(parts_of(TEXT)[1])
    for kind in "one file", "three shards", "names without prefix", "16 bits":
        tensors = random_tensors(len(kind))
        dir_ = f"{folder}/{kind.replace(' ', '-')}"
        os.mkdir(dir_)
        if kind == "one file":
            st.save_file(tensors, f"{dir_}/model.safetensors", {"format": "pt"})
        elif kind == "three shards":
            names = sorted(tensors)
            place = {name: f"model-{i % 3 + 1:05}-of-00003.safetensors" for i, name in enumerate(names)}
            for file in sorted(set(place.values())):
                st.save_file({n: tensors[n] for n in names if place[n] == file}, f"{dir_}/{file}")
            json.dump({"metadata": {}, "weight_map": place}, open(f"{dir_}/model.safetensors.index.json", "w"))
        elif kind == "names without prefix":
            stored = {n.removeprefix("transformer."): t for n, t in tensors.items()}
            for layer in range(LAYERS):  # masks, which old files keep
                stored[f"h.{layer}.attn.bias"] = np.tril(np.ones((1, 1, CONTEXT, CONTEXT), np.float32))
            st.save_file(stored, f"{dir_}/model.safetensors")
        else:
            halves = {n: t.astype(np.float16) for n, t in tensors.items()}
            st.save_file(halves, f"{dir_}/model.safetensors")
            tensors = {n: t.astype(np.float32) for n, t in halves.items()}
        ours, _ = gpt2(folder, "--steps", 1, "--optimizer", "sgd", "--lr", 0, "--import", dir_, "--export", dir_ + "-out")
        written = st.load_file(dir_ + "-out/model.safetensors")
        same = set(written) == set(tensors) and all(written[n].tobytes() == tensors[n].tobytes() for n in tensors)
        check(same, f"{kind}: read at stage 3 on two ranks and written again, every bit the same")
        logits = forward(tensors, inputs)
        close(ours["validation_loss"], loss_of(logits, targets), f"{kind}: validation loss against double precision")
        if kind == "one file":
            close(our_logits(dir_), logits[0], f"{kind}: logits against double precision")
    # From file to checkpoint and back, without a trainer.
    run(TOOL, "import", f"{folder}/three-shards", f"{folder}/imported")
    run(TOOL, "verify", f"{folder}/imported")
    run(TOOL, "export", f"{folder}/imported", f"{folder}/again", "--dtype", "fp32")
    tensors, again = random_tensors(len("three shards")), st.load_file(f"{folder}/again/model.safetensors")
    check(set(again) == set(tensors) and all(again[n].tobytes() == tensors[n].tobytes() for n in tensors),
          "zero-checkpoint import and export: every bit the same")


def test_transformers(folder):
    """from_pretrained on our export gives our logits; its random model trains here as in torch."""
    try:
        import torch
        import transformers
        from transformers import GPT2Config, GPT2LMHeadModel
    except ImportError as e:
        skip(f"{e}; pip install torch transformers")
    print(f"transformers {transformers.__version__}, torch {torch.__version__}, "
          f"safetensors {safetensors.__version__}")
    torch.set_num_threads(1)
    training, validation = map(samples_of, parts_of(TEXT))
    ids, targets = (torch.tensor(x) for x in validation)

    def torch_loss(model, batch):
        inputs, wanted = (torch.tensor(x) for x in batch)
        logits = model(inputs).logits
        return torch.nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), wanted.reshape(-1))

    ours, _ = gpt2(folder, "--steps", 3, "--export", f"{folder}/model")
    model, info = GPT2LMHeadModel.from_pretrained(f"{folder}/model", output_loading_info=True)
    model.eval()
    check(not any(info.values()), f"from_pretrained has nothing missing or left over: {info}")
    check(model.lm_head.weight.data_ptr() == model.transformer.wte.weight.data_ptr(), "the head is tied")
    with torch.no_grad():
        close(our_logits(f"{folder}/model"), model(ids[:1]).logits[0], "logits of our export")
        close(ours["validation_loss"], torch_loss(model, validation), "validation loss of our export")

    torch.manual_seed(4)
    model = GPT2LMHeadModel(GPT2Config(
        vocab_size=VOCABULARY, n_positions=CONTEXT, n_embd=WIDTH, n_head=HEADS, n_layer=LAYERS, resid_pdrop=0,
        embd_pdrop=0, attn_pdrop=0, bos_token_id=None, eos_token_id=None))
    model.save_pretrained(f"{folder}/random", safe_serialization=True)
    with torch.no_grad():
        close(our_logits(f"{folder}/random"), model(ids[:1]).logits[0], "logits of its random model")
    ours, losses = gpt2(folder, "--steps", 5, "--scheduler", "constant", "--lr", 1e-3, "--import",
                        f"{folder}/random", "--export", f"{folder}/trained")
    # As gpt2 has them: weight decay of matrices alone, betas 0.9 and 0.99, gradients clipped at 1.
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1},
                                   {"params": vectors, "weight_decay": 0}], lr=1e-3, betas=(0.9, 0.99), eps=1e-8)
    expected = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = torch_loss(model, training)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        expected.append(float(loss.detach()))
    close(losses, expected, "losses of five AdamW steps from its random model, against torch's")
    with torch.no_grad():
        close(ours["validation_loss"], torch_loss(model, validation), "validation loss after them")
        trained = GPT2LMHeadModel.from_pretrained(f"{folder}/trained")
        close(ours["validation_loss"], torch_loss(trained, validation), "validation loss of them, written and read")
    for dtype in torch.bfloat16, torch.float16:
        half = GPT2LMHeadModel.from_pretrained(f"{folder}/trained", torch_dtype=dtype)
        half.save_pretrained(f"{folder}/half", safe_serialization=True)
        gpt2(folder, "--steps", 1, "--optimizer", "sgd", "--lr", 0, "--import", f"{folder}/half", "--export",
             f"{folder}/half-out")
        back = GPT2LMHeadModel.from_pretrained(f"{folder}/half-out")
        check(all(torch.equal(a.float(), b) for a, b in zip(half.parameters(), back.parameters())),
              f"its model in {dtype} is read and written again as floats, every bit the same")
    model.save_pretrained(f"{folder}/shards", safe_serialization=True, max_shard_size="20KB")
    check(os.path.exists(f"{folder}/shards/model.safetensors.index.json"), "its model in shards")
    with torch.no_grad():
        close(our_logits(f"{folder}/shards"), model(ids[:1]).logits[0], "logits of its model in shards")


if __name__ == "__main__":
    what, GPT2, TOOL, LOGITS = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="zero_exchange_") as folder:
        open(f"{folder}/text", "wb").write(TEXT)
        {"export": test_export, "import": test_import, "transformers": test_transformers}[what](folder)
    sys.exit(f"{len(failures)} failed" if failures else 0)
