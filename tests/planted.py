# ruff: noqa: E501 - a row of a table is a line
"""Secrets in the forms in which logs, commands, labels and environments have them, and what only
looks like one.

Written as the examples of tprimat/redaction/forms.py are: the secrets between « and », what a
program draws as <hex:40>.
"""

from __future__ import annotations

import random
import re
import string

from made_secrets import KEPT
from made_secrets import SECRETS as MADE

from tprimat.redaction.forms import ISSUED_FORMS, REMOVED, SECRET_FORMS

_LETTERS = {
    "hex": "0123456789abcdef",
    "mixed": string.ascii_letters + string.digits,
    "lower": string.ascii_lowercase + string.digits,
    "upper": string.ascii_uppercase + string.digits,
    "digits": string.digits,
}
_DRAWN = re.compile(rf"<({'|'.join(_LETTERS)}):(\d+)>")


def drawn(text: str, seed: int = 0) -> str:
    """Return a text with letters in place of <hex:40>, the same for a seed."""
    chance = random.Random(f"{seed} {text}")
    return _DRAWN.sub(lambda each: "".join(chance.choices(_LETTERS[each[1]], k=int(each[2]))), text)


def parts(form: str) -> tuple[str, str, list[str]]:
    """Return a form as it stands in a log, as it is redacted, and its secrets."""
    text = drawn(form)
    return re.sub("[«»]", "", text), re.sub("«[^»]*»", REMOVED, text), re.findall("«([^»]*)»", text)


ONE_LINE = (
    # Variables, options and commands.
    "DB_PASS=«1234»", "export DB_PASSWORD=«12345678»", "API_TOKEN=«12345678»", "MY_API_KEY=«87654321»", "CLIENT_SECRET=«24681357»",
    "train.py --db-pass «hunter2»", "train.py --db-pass=«1234»", "train.py --password «hunter2»", "train.py --password «1234»",
    "train.py --password=«1234»", "train.py --passwd «letmein»", "train.py --pw=«hunter2»", "train.py --pw «hunter2»",
    "train.py --pwd=«tr0ub4dor»", "train.py --api-key «<mixed:24>»", "train.py --api-token «12345678»", "train.py --hub-token=«abcd-1234-efgh»",
    "train.py --wandb-key «<hex:40>»", "train.py --client-secret=«abc-def-ghi»", "train.py --root-pass «toor99»", "train.py --user-pass=«hunter2»",
    "sshpass -p «hunter2» ssh gpu", "sshpass -p '«hunter2 more»' ssh gpu", "sshpass -p«hunter2» scp a b", "mysql -u ada -p«hunter2» runs",
    "mysqldump --all -p'«hunter2»' > x", "mariadb -h db -p«hunter2»", "snowsql -a acme -p «hunter2»", "mongosh -u ada -p «hunter2»",
    "redis-cli -h cache -a «hunter2» ping", "ldapsearch -D cn=ada -w «hunter2»", "docker login -u ada -p «letmein99» r.example.com",
    "helm push --username ada -p «letmein99»", "echo «hunter2» | docker login --password-stdin", "echo -n «dckr-99-x» | helm registry login --password-stdin",
    "echo «Super@123» | sudo -S sysctl vm.drop_caches=3", "printf '«hunter2»' | docker login -u ada --password-stdin",
    "openssl enc -aes256 -pass pass:«hunter2»", "openssl rsa -passin pass:«hunter2»", "curl --user ada:«letmein99» https://x.example.com",
    "curl -H 'Authorization: Bearer «<mixed:40>»' https://x", "wget --http-password=«hunter2» https://x", "wget --password '«two words»' https://x",
    "GH_PAT=«<mixed:40>»", "AZURE_DEVOPS_EXT_PAT=«<lower:52>»", "REDISCLI_AUTH=«hunter2»", "PGPASSWORD=«hunter2»", "MYSQL_PWD=«hunter2»",
    "NCCL_PW=«hunter2»", "NVTE_PW=«hunter2»", "SUDO_PASS=«letmein»", "SMTP_PASS: «letmein»", "ADMIN_PASS = «letmein»", "LDAP_BIND_PASSWORD=«x9»",
    "WANDB_API_KEY=«your_wandb_api_key»", "HF_TOKEN='«hf_<mixed:34>»'", "ENCRYPTION_KEY=«<mixed:32>»", "os.environ['HF_HUB_TOKEN'] = '«abcd-1234-efgh»'",
    "API_KEY: `«abcdef-123456»`", 'API_KEY: str = "«abcdef-123456»"', 'api_key = SecretStr("«abcdef-123456»")',
    "api_key := «abcdef-123456»", "api_key => '«abcdef-123456»'", "api_key == «abcdef-123456»", "passphrase: «correct»", "passcode=«998877»",
    "contraseña: «hunter2»", "password: «12345»", "user password «hunter22»", "Passwort = «geheim1»", "password_hash=«<hex:40>»",
    "ＡＰＩ＿ＫＥＹ＝«ａｂｃｄｅｆ１２３４５６»", "ＤＢ_PASSWORD=«hunter2»",
    # Addresses.
    "https://h.example.com/?token=«abcDEF123456»", "https://h.example.com/a?x=1&api_key=«abcDEF123456»", "GET /?access_token=«abcDEF123456» HTTP/1.1",
    "https://h.example.com/x?X-Amz-Security-Token=«<mixed:60>»", "wss://h/?auth=«abcDEF123456»", "postgresql://«ada:hunter2»@db:5432/x",
    "amqp://«guest:guest»@mq", "https://«<mixed:24>»@github.com/x/y", "mongodb+srv://«ada:hunter2»@cluster0.example.net",
    'href="https://h.example.com/?a=1&amp;token=«abcDEF123456»"', "https://h/x?sv=2024&sig=«<mixed:40>%3D»", "https://discord.com/api/webhooks/«123456789012345678/<mixed:68>»",
    # JSON and dictionaries.
    '{"password": "«1234»"}', '{"db": {"password": "«hunter2»"}}', '{"apiKey": "«abcdef-123456»", "n": 1}',
    '{"client_secret": "«abc-def-ghi»", "step": 3}', '{\\"api_key\\": \\"«abcdef-123456»\\"}', "{'hub_token': '«abcd-1234-efgh»'}",
    '{"name": "WANDB_API_KEY", "value": "«<hex:40>»"}', "{'name': 'DB_PASSWORD', 'value': '«hunter22xy»'}", '{"name":"HF_TOKEN","value":"«abcd-1234-efgh»"}',
    '{"value": "«hunter22xy»", "name": "DB_PASSWORD"}', '{"value":"«abcd-1234-efgh»","name":"HF_TOKEN"}', '"auths": {"r.example.com": {"auth": "«<mixed:32>»"}}',
    '[["password", "«hunter2»"], ["lr", "0.1"]]', '("wandb_api_key", "«<hex:40>»")', '"Cookie": "«session=abcdef; theme=dark»"',
    '"private_key": "-----BEGIN PRIVATE KEY-----«\\n<mixed:64>\\n<mixed:40>==\\n»-----END PRIVATE KEY-----"',
    # XML, tables and headers.
    "<password>«hunter2»</password>", "<apiKey>«abcdef-123456»</apiKey>", '<add key="Password" value="«hunter22»" />', '<env name="HF_TOKEN" value="«abcd-1234-efgh»"/>',
    "<name>fs.s3a.secret.key</name><value>«<mixed:40>»</value>", "<property><name>db.password</name> <value>«hunter2»</value>", "<db:password type='x'><password>«hunter2»</password>",
    "│ wandb │ «<hex:40>» │", "| wandb_api_key | «<hex:40>» |", "│ hub_token ┃ «abcd-1234-efgh» │", "wandb_api_key ........... «<hex:40>»",
    "> X-Api-Key: «abcdef-123456»", "> Authorization: Digest username=\"ada\", response=\"«<hex:32>»\"", "Set-Cookie: «sid=abcdef123456»",
    "Proxy-Authorization: Basic «<mixed:24>»", "Authorization: token «<mixed:40>»",
    # Behind the prefixes that launchers set.
    "[rank0]: DB_PASSWORD=«hunter2»", "2026-01-01T00:00:00Z stdout F API_KEY: «abcdef-123456»", "[1,0]<stdout>:hub_token: «abcd-1234-efgh»",
    "INFO:root:config {'wandb_key': '«<hex:40>»'}", "+ export WANDB_API_KEY=«<hex:40>»", "Traceback: RuntimeError: 401 for key «sk-proj-<mixed:40>»",
    # Issued.
    "using «1//0<mixed:40>»", "using pypi-«AgEIcHlwaS5vcmc<mixed:60>»", "using «SK<hex:32>»", "using «<hex:32>-us12»", "using dckr_pat_«<mixed:27>»",
    "r8_«<mixed:37>» loaded", "gsk_«<mixed:52>» loaded", "sk-or-v1 «sk-or-v1-<hex:64>»", "«sk-ant-api03-<mixed:90>»", "«AKIA<upper:16>» is the user's",
    # Values within something else.
    "password: &anchor «hunter2»", "password: !!str «hunter2»", "<token><![CDATA[«<mixed:24>»]]></token>", "<password><![CDATA[«hunter2»]]></password>",
    "{'secret': b'«abcd-1234-efgh»'}", "{'password': b'«hunter2»'}", 'api_key: Some("«abcdef-123456»")', 'password: Some("«hunter2»")',
    '{"token": {"value": "«<mixed:24>»"}}', '{"password": {"value": "«hunter2»"}}', "GET /x?password%3D«hunter2»", "to=https%3A%2F%2Fh%3Ftoken%3D«abcd-1234-efgh»",
    "password:\u00a0«hunter2»", "password=«hun\u200bter2» x", "pass\u200bword=«hunter2» \u200bx", "\ufeffapi_\u00adkey=«abcdef-123456»",
    "JSESSIONID=«<upper:32>»", "seed phrase: «legal winner thank year wave sausage worth useful legal winner thank yellow»", '"k":"«<mixed:43>»"',
    "7z a -p«hunter2» out.7z runs", "7z x -p'«two words»' out.7z", "unzip -q -P «hunter2» a.zip", "zip -P «letmein» a.zip x", "openssl enc -aes-256-cbc -k «hunter2» -in a",
    "smbclient //h/s -U ada%«hunter2»", "echo '«hunter2»' | kinit ada", "ada:«$apr1$abcdefgh$<mixed:22>»", "ada:«$2b$12$<mixed:53>»", "«$argon2id$v=19$m=65536,t=3,p=4$<mixed:22>$<mixed:43>»",
    "Password for ada: «hunter2»", "The password is «letmein9»", "your api key is «abcdef-123456»", "machine h login ada password «letmein»",
)  # fmt: skip
SEVERAL_LINES = (
    "-----BEGIN RSA PRIVATE KEY-----\n«<mixed:64>»\n«<mixed:63>=»\n-----END RSA PRIVATE KEY-----\nstep 1 loss 2.5\n",
    "[rank0] -----BEGIN RSA PRIVATE KEY-----\n[rank0] «<mixed:64>»\n[rank1] step 12 loss 2.5\n[rank0] «<mixed:22>==»\n[rank0] -----END RSA PRIVATE KEY-----\n",
    "2026-01-01 00:00:01 -----BEGIN PRIVATE KEY-----\n2026-01-01 00:00:01 «<mixed:64>»\n2026-01-01 00:00:02 «<mixed:30>»\n"
    "2026-01-01 00:00:02 -----END PRIVATE KEY-----\n",
    "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,0123\n\n«<mixed:64>»\n«<mixed:20>»\n-----END RSA PRIVATE KEY-----\n",
    "-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: 2\n\n«<mixed:64>»\n«=<mixed:4>»\n-----END PGP PRIVATE KEY BLOCK-----\n",
    "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\n«<mixed:64>»\n«<mixed:10>==»\n---- END SSH2 ENCRYPTED PRIVATE KEY ----\n",
    "PuTTY-User-Key-File-2: ssh-rsa\nPrivate-Lines: 2\n«<mixed:64>»\n«<mixed:40>=»\nPrivate-MAC: 0123\n",
    "ssh_key: |\n  -----BEGIN OPENSSH PRIVATE KEY-----\n  «<mixed:64>»\n  «<mixed:20>»\n  -----END OPENSSH PRIVATE KEY-----\nlr: 0.1\n",
    "-----BEGIN EC PRIVATE KEY-----\n«<mixed:64>»\n«<mixed:64>»\nthe log ends\n",
    "aws_secret_access_key:\n  «<mixed:40>»\nregion: x\n",
    "api_key: >-\n  «abcdef-123456»\nlr: 0.1\n",
    "api_key: |\n    «abcdef-123456»\nlr: 0.1\n",
    "[rank0] api_key: >-\n[rank0]   «abcdef-123456»\n[rank0] lr: 0.1\n",
    "password:\n  «hunter22»\nlr: 0.1\n",
    "api_key: >-\n  «<mixed:40>»\n  «<mixed:40>»\nlr: 0.1\n",
    "WANDB_API_KEY=«<mixed:40>»\\\n«<mixed:30>»\\\n«<mixed:10>»\nstep 1\n",
    'AWS_SESSION_TOKEN="«<mixed:60>»\\\n  «<mixed:60>»"\nstep 1\n',
    "users:\n- name: ada\n  user:\n    client-key-data: «<mixed:80>=»\n    token: «<mixed:40>»\n",
    "env:\n- name: HF_TOKEN\n  value: «abcd-1234-efgh»\n- name: NCCL_DEBUG\n  value: INFO\n",
    'env:\n  - name: "DB_PASSWORD"\n    value: "«hunter22xy»"\n  - name: STEPS\n    value: "100"\n',
    '{\n  "name": "WANDB_API_KEY",\n  "value": "«<hex:40>»"\n}\n',
    '{\n  "value": "«hunter22xy»",\n  "name": "DB_PASSWORD"\n}\n',
    "<property>\n  <name>db.password</name>\n  <value>«hunter22»</value>\n</property>\n",
    "apiVersion: v1\nkind: Secret\nmetadata:\n  name: x\ndata:\n«  config: <mixed:24>==»\ntype: Opaque\n",
    'apiVersion: v1\ndata:\n«  tls.crt: <mixed:80>»\nkind: Secret\nmetadata:\n  name: "x"\n',
    "user,api_key,steps\nada,«abcdef123456»,100\nbob,«uvwxyz654321»,200\n\nstep 1\n",
    '"name";"password"\n"ada";"«hunter2»"\n"bob";"«letmein»"\n',
    "host\taccess_token\th\na\t«abcdef-123456»\t1\n",
    "user\tpassword\nada\t«hunter2»\n\nstep 1\n",
    "| user | password |\n|------|:--------:|\n| ada  | «hunter2» |\n| bob  | «letmein» |\n\nstep 1\n",
    "| user | token |\n|---|---|\n| ada | «abcd-1234-efgh» |\n",
    'secret = """\n«abcdef-123456»\n"""\n',
    "<password>\n  «letmein»\n</password>\n",
    "API_TOKEN=\\\n«abcdef-123456»\nstep 1\n",
    "- token\n- «abcd-1234-efgh»\n- steps\n",
    "machine h\n  login ada\n  password «letmein»\n",
)  # fmt: skip

PLANTED: tuple[str, ...] = (
    *ONE_LINE,
    *SEVERAL_LINES,
    *(form.example for form in (*SECRET_FORMS, *ISSUED_FORMS)),
    *(line.replace(secret, f"«{secret}»") for line, secret in MADE),
)

HARMLESS: tuple[str, ...] = (
    *KEPT,
    *(form.harmless for form in (*SECRET_FORMS, *ISSUED_FORMS)),
    # Figures of steps.
    "forward_pass: 123.4 ms", "fwd_pass=12.3ms", '"num_pass": 2', '"reward/tests_pass": 0.5', '"password_loss": 0.25', "pwd: 12.5", '"cookie": 4, "loss": 2.5',
    "test_pass: 0.53 | loss: 2.5", "step 3 time_pass: 0.25 s loss 2.5", "backward_pass (ms): 12", "pass: 3 of 10", "two_pass 123.45", "n_pass=1e-3",
    "secret_loss: 0.5", "token: 12.5", "tokens: 123456789", "tokens_per_pass: 1234567", "auth_time: 12.25", "cred: 0.125", "key: 0.5", "api_key: 3",
    "signature: 0.25", "pass_rate=98.5%", "eval_pass: nan", "val_pass: inf", '{"step": 1, "forward_pass": 0.1234, "loss": 2.5}', "user_pass: 0.93",
    "| forward_pass: 120.00 | loss: 2.5 |", "first_pass: 1,234.5 ms", "pw: 3.5", "cookie: 4", "value: 12345678 name: tokens", "pass 12345678 of 23456789",
    '{"value": 0.5, "name": "password_strength"}', "reward/password: 0.25", "bearer 12", "sig: 0.1", "access_token: 8", "hub_token 128009", "PASS: 12 FAIL: 0",
    "test_checkpoint_pass: OK", "smoke_test_pass=yes", "forward_pass: compiled", "all_pass: True", "compile_pass: inductor", "N_PASS=12",
    # Images, packages, labels, names.
    "rocm/primus:v25.9_gfx942_<hex:40>", "rocm/megatron-lm:v25.5_py310_<hex:12>", "nvcr.io/nvidia/nemo:25.04.01", "nemo_toolkit-<hex:40>", "nemo_toolkit-2.4.0rc0",
    "image: rocm/primus@sha256:<hex:64>", "apex-0.1+<hex:40>", "transformer_engine-2.1.0+<hex:8>", "megatron_core-0.13.0rc2.dev+<hex:7>", "torch-2.8.0a0+<hex:10>.nv25.6",
    "sk-h100-8x-llama3-bf16-20240101", "sk-mi300x-16x-mixtral-fp8-run-12", "hf_llama3_8b", "label: sk-run-llama3-8b-tp2-pp4", "test_llama3_8b_bf16_tp2_pp4_mbs1_gbs128_seq8192",
    "tokenizer_key: meta-llama/Llama-3.1-8B-Instruct", "model_key: Qwen/Qwen2.5-72B-Instruct-1M", "dataset_key: allenai/c4-en-noblocklist", "token: <|reserved_special_token_12|>",
    "pad_token: <|finetune_right_pad_id|>", "eos_token='</s>'", "image_token: <image_soft_token>", "tokenizer: GPT2BPETokenizer", "token_embedding: VocabParallelEmbedding",
    "key_padding_mask: None", "key_value_channels: 128", "apply_query_key_layer_scaling ....... False", "key_projection.weight torch.Size([4096, 4096])", "cache_key: layers.0",
    "author_email: None", "authors: Ada", "authentic run", "authorized_keys: none", "password: null", "password=None", "password: ${DB_PASSWORD}", "--password $DB_PASSWORD",
    "PASSWORD=***", "api_key: ${WANDB_API_KEY}", "token: ***", "secretName: my-tls-certificate-1", "secretKeyRef: wandb-credentials-1", "secret_file: /run/secrets/x1",
    "credentials_path: /etc/x/credentials-1.json", "certificate: x", "PWD=/home/ada/runs", "OLDPWD=/srv/x1", "pwd: /home/ada/x1", "compass=hunter2", "bypass: yes", "encompass 12 pass",
    "https://huggingface.co/meta-llama/Llama-3.1-8B?library=transformers", "https://wandb.ai/x/y/runs/a1b2c3d4", "https://h/?page=2&key=1", "git@github.com:x/y.git", "ssh://git@example.com/x",
    "tcp://10.0.0.1:29500", "file:///data/c4", "s3://bucket/runs/2024", "docker run -u 1000 -p 8080:80 x", "mysql -P 3306", "login node 3", "echo step 5 loss 2.5", "curl -O https://x",
    "train.py -p bf16 -u 4", "train.py --precision fp8 --num-pass 2", "train.py --tokenizer-key name", "train.py --max-tokens 12345678", "train.py --two-pass 2",
    "-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBaMQswCQYDVQQGEwJJ\n-----END CERTIFICATE-----", "kind: ConfigMap\ndata:\n  steps: abcdefghij\n",
    "step,loss,time\n1,2.5,0.25\n2,2.4,0.25\n", "user,steps,pass\nada,100,12345\n", "tokens:\n  per_second\n", "| lr | 0.1 |\n| password | none |\n| tokenizer | GPT2BPE |\n", "| token | count |\n|---|---|\n| reserved_special_token_12 | 12 |\n",
    "| rank | token | logit |\n|---|---|---|\n| 1 | information | 2.5 |\n", "- password\n- username\n", "- token\n- positions\n- layer_norm_12\n", "login node12\npassword authentication\n", "<token>\n  <id>12</id>\n</token>\n",
    "the password is incorrect", "The password is required.", "Password for ada: ", "the token is reserved_special_token_12", "the secret is a long warm-up", "API key is not set", "password: {'value': 0.5}",
    '{"k": 12, "d": 0.5, "q": "q_proj.layers.12.attention.weight.of.4096", "p": 0.9}', "pass = 3", "pass = 12.5 ms", "zip -r -q out.zip runs", "openssl version && curl -k https://x", "echo 12 | kinetic",
    "step 5 | pwd: 12345 | loss: 2.5", "step 5 loss: 2.5 pw=12345678", '{"step": 5, "passwd": 1234, "loss": 2.5}', "passwd: 12.5", "pw=3 iteration 5",
    "mnemonic: llama", "phrase: the quick brown fox", "costs $1$ of $6$", "JSESSIONID", "a\u200bb step\u00a05 loss:\u00a02.5", "key:\n  value\n", "api:\n  steps: 12\n",
    "void cutlass::device_kernel<flash::FlashAttnFwdSm90<CollectiveMainloopFwdSm90>>", "triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_12", "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn",
    "Cijk_Alik_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT256x256x64_MI16x16x1_SN_LDSB0", "UUID: GPU-01234567-89ab-cdef-0123-456789abcdef", "run_id: 01234567-89ab-cdef-0123-456789abcdef",
    "commit <hex:40>", "sha256:<hex:64>", "md5 <hex:32>", "checkpoint-12345678", "iter_0012345/mp_rank_00_000", "events.out.tfevents.1700000000.node-1.123.0", "20240101_123456789012",
)  # fmt: skip
