"""Lines of logs with a secret each: made up, of every form in which one gets into a log."""

from __future__ import annotations

import random
import string

_CHANCE = random.Random(32)


def _letters(count: int, alphabet: str = string.ascii_letters + string.digits) -> str:
    """Return letters with a digit and both cases among the last, as what a program draws has
    them.
    """
    return (
        "".join(_CHANCE.choice(alphabet) for _ in range(count - 3))
        + "a7Z"[: 3 if alphabet[-1] == "9" else 0]
    )


def _hex(count: int = 40) -> str:
    return "".join(_CHANCE.choice("0123456789abcdef") for _ in range(count))


# The text around a secret, which stands where the sign § does, and the secret.
_FORMS: tuple[tuple[str, str], ...] = (
    ("export AWS_SECRET_ACCESS_KEY=§", f"{_letters(20)}/{_letters(8)}+{_letters(10)}"),
    ("AWS_SESSION_TOKEN=§", f"{_letters(40)}/{_letters(30)}+{_letters(30)}=="),
    ("AWS_ACCESS_KEY_ID: §", "AK" + "IA" + _letters(16, string.ascii_uppercase)),
    ("+ AZURE_STORAGE_KEY='§'", f"{_letters(60)}/{_letters(20)}=="),
    ("Protocol=https;AccountName=store;AccountKey=§;EndpointSuffix=x", f"{_letters(60)}+{_letters(18)}=="),
    ("https://store.blob.example.com/c?sv=2024-01-01&sig=§&se=2030", f"{_letters(40)}%3D"),
    ("https://b.s3.example.com/x?X-Amz-Signature=§", _hex(64)),
    ("WANDB_API_KEY=§", _hex()),
    ('export WANDB_API_KEY="§"', _hex()),
    ('{"WANDB_API_KEY": "§", "n": 1}', _hex()),
    ("    wandb_api_key: §", _hex()),
    ("wandb_api_key ............................... §", _hex()),
    ("{'wandb_api_key': '§'}", _hex()),
    ("+ wandb login §", _hex()),
    ("+ wandb login --relogin --host https://wandb.example.com §", _hex()),
    ("python train.py --wandb-key § --steps 20", _hex()),
    ("python train.py --wandb-key=§", _hex()),
    ("['train.py', '--wandb-key', '§']", _hex()),
    ('wandb.login(key="§")', _hex()),
    ("HF_TOKEN=§", "hf" + "_" + _letters(34)),
    ("HUGGING_FACE_HUB_TOKEN: §", _letters(34)),
    ("TrainingArguments(hub_token='§', seed=1)", "abcd-1234-efgh"),
    ("huggingface-cli login --token §", "hf" + "_" + _letters(34)),
    ("cloning with " + "gh" + "p_§", _letters(36)),
    ("cloning with " + "github" + "_pat_§", _letters(50)),
    ("GITLAB=§", "gl" + "pat-" + _letters(20)),
    ("NGC § accepted", "nv" + "api-" + _letters(60)),
    ("google §", "AI" + "za" + _letters(35)),
    ("slack §", "xo" + "xb-" + _letters(12, string.digits) + "-" + _letters(24)),
    ("OPENAI_API_KEY=§", "s" + "k-proj-" + _letters(40)),
    ("client § created", "s" + "k-ant-api03-" + _letters(40)),
    ("> Authorization: Bearer §", f"{_letters(20)}.{_letters(20)}-{_letters(6)}"),
    ("'Authorization': 'Basic §'", f"{_letters(30)}=="),
    ("session §", "ey" + "J" + _letters(20) + "." + "ey" + "J" + _letters(40) + "." + _letters(40)),
    ("git clone https://§@git.example.com/team/repo.git", "ada:pw-" + _letters(8)),
    ("git clone https://§@git.example.com/team/repo.git", _letters(20)),
    ("redis://§@cache:6379/0", ":" + _letters(9)),
    ("DB_PASSWORD=§", "hunter2"),
    ("mlflow_tracking_password: '§'", "correct horse battery"),
    ("Server=db;Uid=ada;Pwd=§;", "tr0ub4dor&3"),
    ("machine api.example.com login user password §", _hex()),
    ("docker login -u ada -p § registry.example.com", "letmein99"),
    ("client_secret=§", "abc-def-ghi-jkl"),
    ('"private_key": "-----BEGIN PRIVATE KEY-----§-----END', f"\\n{_letters(60)}\\n{_letters(20)}==\\n"),
    ("COMET_API_KEY -> §", _letters(25)),
    ("| neptune_api_token | § |", _letters(40)),
    # Behind the letters of who issued it, without a name for it.
    ("using dop_v1_§ now", _hex(64)),
    ("using glrt-§ now", _letters(20)),
    ("using npm_§ now", _letters(36)),
    ("using SG.§ now", f"{_letters(22)}.{_letters(43)}"),
    ("using lin_api_§ now", "k3j5h7g9f2d4s6a8q1w3e5r7t9y2"),
    ("using AGE-SECRET-KEY-§ now", "1Q3W5E7R9T2Y4U6I8P1A3S5D7F9G2H4J6K8L1Z3X5C7V9B2N4M"),
    ("bot 123456789:§ answers", "AA" + _letters(33)),
    ("POST https://hooks.slack.com/§ failed", f"services/T01ABCDEF/B02ABCDEF/{_letters(24)}"),
    # In a name that nobody knows, in small letters.
    ("vendor_token: §", "k3j5h7g9f2d4s6a8"),
    ("train.py --vendor-token § --steps 3", "k3j5h7g9f2d4s6a8"),
    ("vendor_key: '§'", "1f2e3d4c-5b6a-7988-9a0b-c1d2e3f40516"),
    ("curl -s -u ada:§ https://api.example.com", "letmein99"),
    ("> Cookie: §", "session=abcdef123456; theme=dark"),
)  # fmt: skip

SECRETS: tuple[tuple[str, str], ...] = tuple(
    (text.replace("§", secret), secret) for text, secret in _FORMS
)
"""Lines, and the secret in each."""

KEPT = (
    (
        " iteration       20/      50 | consumed samples: 20480 | tokens per GPU (tokens/s/GPU):"
        " 10635.5/10600.1 |"
    ),
    (
        "token: 1234567890123 | tokens: 123456789012 | per_token: 1.2345678901e-10 | key:"
        " 12345678901234567890"
    ),
    (
        "eos_token: <|endoftext|> pad_token=[PAD] eos_token_id: 128001 bos_token='<s>' token_type:"
        " learned_absolute"
    ),
    (
        ':::MLLOG {"key": "opt_adamw_beta_1", "value": 0.9} {"key": "gradient_accumulation_steps",'
        ' "value": 1234567890}'
    ),
    (
        "commit 0123456789abcdef0123456789abcdef01234567, sha256 of the data"
        " 0123456789abcdef0123456789abcdef"
    ),
    (
        "query_key_value.weight keys: ['model'] apply_query_key_layer_scaling ..................."
        " False"
    ),
    "step:1 loss: 3.14159265358979 val_loss=2.718281828459045 grad_norm 1.4142135623730951",
    "author: someone, tokenizer=LlamaTokenizerFast tokenizer_type: HuggingFaceTokenizer3Fast",
    "PWD=/home/ada OLDPWD=/srv/x pwd: ~/runs, passed 12345678 of 12345678, compass: 123456789",
    "https://huggingface.co/meta-llama/Llama-3.1-8B tcp://10.0.0.1:29500 ssh://git@example.com/x",
    (
        "api_key=None api_key: null hub_token=<HUB_TOKEN> use_auth_token: True hub_token=None"
        " password=None"
    ),
    (
        "task-level-parallelism-version-2 mask-language-modeling-objective-1"
        " disk-cache-0123456789abcdef"
    ),
    "fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvCausalP16VarSeqQ128Kv128PersistentContext",
    "sm90_xmma_gemm_bf16bf16_tilesize128x128x64_warpgroupsize1x1x1cgasize2x1x1_execute_segment_k_off_kernel__5x",
    "_ZN5flash18flash_fwd_kernelI23Flash_fwd_kernel_traitsILi128ELi128ELi64ELi4ELb0EN7cutlass10bfloat16_tE",
    (
        "sha256-0123456789abcdef0123456789abcdef"
        " models--meta-llama--Llama-3.1-8B/snapshots/0123456789abcdef01234567"
    ),
    (
        "special_token: reserved_special_token_250 key: layers.0.attention.wq.weight low-key"
        " 1234567890123456"
    ),
    (
        "attention_key_dim: 64, secret: none, max_tokens=8192000000, login successful for user ada"
        " on this machine"
    ),
)
"""Lines that only look like it."""
