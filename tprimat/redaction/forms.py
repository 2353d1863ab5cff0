# ruff: noqa: E501 - a row of a table is a line
"""The forms of secrets in text, a row each. Data alone: secrets.py looks for them.

Which kinds there are is known from gitleaks (config/gitleaks.toml at b58d3f10) and detect-secrets
(plugins at 5e141933), whose rule a row names as its source; the source "logs" stands for what logs
and commands of trainings have besides. The patterns are our own.

In an example the secret stands between « and ». What a program draws is written <hex:40>,
<mixed:36>, <lower:20>, <upper:16> or <digits:12>, so that no file of this repository looks as if it
had one.
"""

from __future__ import annotations

import re
from typing import NamedTuple

REMOVED = "[removed]"


class SecretForm(NamedTuple):
    """A form of secrets.

    Attributes:
        marks: with | between them and in lower case; the pattern begins with one of them.
        pattern: the last group that matches is the secret. One called `drawn` is a secret only if
            nobody writes such a word by hand.
        harmless: a text that only looks like one.
    """

    kind: str
    marks: str
    pattern: str
    example: str
    harmless: str
    source: str


class IssuedForm(NamedTuple):
    """A form of secrets that whoever issues them begins with letters of their own.

    Attributes:
        prefixes: these letters, with blanks between them; with none the pattern is that of a whole
            word.
        pattern: what follows a prefix, which is the secret.
        harmless: as in SecretForm.
    """

    kind: str
    prefixes: str
    pattern: str
    example: str
    harmless: str
    source: str


_QUOTE = r"(?:\\*[\"'`])?"
# The end of a line, and the prefix of the next one, such as [rank0] or 12:00:01 |, if a launcher
# sets any.
_NEXT_LINE = r"[ \t]{0,60}\r?\n(?:[^\n]{0,80}?[\])|:>][ \t])?"
_IS = "|".join(
    (
        # {"name": "API_KEY", "value": "…"}, also on two lines, and <name>api.key</name><value>…
        rf",?(?:[ \t]{{0,60}}|{_NEXT_LINE}[ \t]{{0,60}})\\*[\"']?\bvalue\\*[\"']?[ \t]{{0,60}}[:=][ \t]{{0,60}}|</name>\s{{0,40}}<value>",
        # api_key: >-  and the value on the next line, alone and farther to the right.
        rf"[ \t]{{0,60}}:[ \t]{{0,60}}(?:[>|][-+\d]{{0,2}})?{_NEXT_LINE}[ \t]{{1,60}}(?=\S{{1,9999}}[ \t]{{0,60}}\r?$)",
        # api_key: str = "…"
        r"[ \t]{0,60}:[ \t]{0,60}(?:str|string|secretstr)[ \t]{0,60}=[ \t]{0,60}",
        # API_KEY=…, "api_key": "…", api_key ..... …, | api_key | …, <apiKey>…,
        # os.environ["API_KEY"] = "…"
        r"\]?[ \t]{0,60}(?:[=-]>|:?={1,3}|:|[|│┃]|\.{3,99}(?!\.))[ \t]{0,60}|>(?=[^\s<]|<!\[cdata)",
        # ("api_key", "…")
        r"(?<=[\"'`]),\s{0,20}(?=\\*[\"'`](?!value))",
        # password%3D… in an address; <password> and the value in the next line
        rf"%3[ad]|>{_NEXT_LINE}[ \t]{{0,60}}(?=[^\s<]{{1,999}}\s{{0,60}}</)",
    )
)
# Some("…"), b'…', f'…', &anchor …, !!str …, <![CDATA[…]]>, {"value": "…"}, \"\"\" and a backslash
# before the next line.
_OPENED = (
    r"secretstr\(|some\(|[bfru]{1,2}(?=[\"'])|<!\[cdata\[|\{[ ]{0,9}\\*[\"']value\\*[\"'][ ]{0,9}:[ ]{0,9}|&[\w-]{1,60}[ ]{1,9}(?=\S)"
    r"|!{1,2}\w{1,30}[ ]{1,9}(?=\S)|(?:\"\"\"|'''|\\)\r?\n[ \t]{0,60}"
)
_IS = rf"(?:{_QUOTE}(?:{_IS})(?:{_OPENED})?{_QUOTE})"
# Behind a backslash the command goes on in the next line.
_BLANK = rf"[ \t]+(?:\\\r?\n[ \t]{{0,60}})?{_QUOTE}"
_NOTHING = rf"{re.escape(REMOVED)}|(?:none|null|nil|true|false|unset|undefined)\b|\$\{{?[A-Za-z_]+\}}?(?!\w)|\*{{3}}|--|optional\b|{_OPENED}"
# No number, which may be one of tokens, no word for nothing, and not the next option.
_VALUE = rf"(?![-+]?[\d.,]+(?:e[-+]?\d+)?(?![\w+/=.-])|{_NOTHING})[\w.~+/=@!%^&*#?:-]{{8,}}"
_SET = rf"(?:{_IS}({_VALUE})|{_BLANK}((?=[^\s\"',]{{0,99}}\d){_VALUE}))"
_DIGITS = r"(\d{6,})(?![\w.])"
_HEX = r"((?-i:[0-9a-f]{32,}|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})\b)"
# With 16 letters and digits in one another.
_DRAWN = r"(?P<drawn>(?=[\w.~%+/-]{0,40}?(?=\d{0,40}[a-z])(?=[a-z]{0,40}\d)[a-z0-9]{16})[\w.~%+/=:-]{16,})"
# What a step prints: a decimal number or one of up to three digits, and its unit.
_FIGURE = (
    r"[-+]?(?:\d[\d,]*\.\d*|\.\d+|\d{1,3})(?:e[-+]?\d{1,3})?[a-zµ%]{0,3}(?:/[a-z]{1,9}){0,2}(?![\w@!#$^&*+=-])"
    r"|[-+]?(?:nan|inf)\b"
)
_ANYTHING = r"(?:(?<=[\"'`])[^\"'`\n\t\\]+|(?:[^\s\"'`,;)\]}\\<]|<(?!/)|\\u00\w\w)+)"
_PASSWORD = rf"((?!{_FIGURE}|{_NOTHING}){_ANYTHING})"
_WORD = rf"{_QUOTE}((?!{_NOTHING}|-|<){_ANYTHING})"
_PAIRS = r"[^\n:]{0,60}[ ][\w.-]{1,99}:[ ]\S{4,}(?:\n[^\n:]{0,60}[ ][\w.-]{1,99}:[ ]\S{4,9999})*"
_OWNERS = (
    "access account api app auth bot client deploy deployment encryption github gitlab hf hmac hub job jwt license master"
    " oauth personal private refresh secret security service session shared signing ssh storage subscription wandb"
)
_USERS = (
    "admin amqp cert database db docker ftp git guest host http https key keystore ldap login mail mongo mqtt mysql pg"
    " postgres proxy rabbitmq redis registry root service smtp sql ssh store sudo svc user vault wifi"
)


def _behind(word: str, owners: str, signs: str = "[-_. ]") -> str:
    """Return a pattern for a word behind that of an owner: API_KEY, api-key, apiKey."""
    before = "|".join(rf"(?<={owner}{signs})" for owner in owners.split())
    return rf"(?<=[\w. -])(?:{before}){word}"


def _named(word: str) -> str:
    """Return a pattern for a setting whose name ends in a word, behind that of an owner or not, and
    for its value.
    """
    owned = rf"(?:{_behind(word, _OWNERS)}|{_behind(word, _OWNERS, '')})(?:[-_]?(?:data|value|b64|base64))?(?![a-z])"
    upper = rf"(?-i:(?<=_){word.upper()}(?![A-Za-z]))"
    digits = rf"(?-i:{_behind(word.upper(), _OWNERS.upper(), '_')}=){_DIGITS}"
    option = rf"{_behind(word, ' '.join(f'-{owner}' for owner in _OWNERS.split()), '-')}(?:=|[ \t]+){_DIGITS}"
    any_name = rf"(?<!cache[-_ ]){word}(?![a-z])(?:{_IS}|(?<=-{word}){_BLANK})(?:{_HEX}|{_DRAWN})"
    return rf"{owned}{_SET}|{upper}{_IS}({_VALUE})|{digits}|{option}|{any_name}"


_KEYWORDS = "gitleaks generic-api-key, detect-secrets KeywordDetector"
SECRET_FORMS = tuple(
    SecretForm(*row)
    for row in (
        # What a setting, an option, a variable, a cell of a table or an element is called.
        ("key", "key", _named("key"),
            'WANDB_API_KEY="«<hex:40>»"', "tokenizer_key: meta-llama/Llama-3.1-8B-Instruct", _KEYWORDS),
        ("token", "token", _named("token"),
            "hub_token: «abcd-1234-efgh»", "token: 1234567890123 | eos_token: <|endoftext|>", _KEYWORDS),
        ("secret", "secret|cred",
            r"(?:secret|cred(?:ential|s))(?![\w-]{0,30}(?:name|ref|path|file|type|class|count|version|dir))[\w-]{0,30}"
            rf"(?:{_SET}|(?-i:(?<=SECRET)=){_DIGITS})",
            "CLIENT_SECRET=«abc-def-ghi-jkl»", "secret_name: training-credentials-2024", _KEYWORDS),
        ("password", "passw|passphrase|passcode|contrase|密码|パスワード|пароль",
            r"(?:passw(?:or[dt]|d)|passphrase|passcode|contrase[nñ]a|密码|パスワード|пароль)s?(?:[-_]?(?:hash|\d))?"
            rf"(?:(?:{_IS}|(?<=-password){_BLANK}|(?<=-passwd){_BLANK}){_PASSWORD}"
            rf"|[ \t]+(?=[^\s=<>\"']{{6}})(?=[^\s=<>]{{0,30}}\d)(?=[^\s=<>]{{0,30}}[a-z]){_PASSWORD})",
            "DB_PASSWORD=«hunter2»", 'password_loss: 0.5 | password: 0.25 | "password": 3', _KEYWORDS),
        ("pass of a user", "pass",
            rf"(?:{_behind('pass', _USERS)}|{_behind('pass', _USERS, '')})(?![a-z_-])(?:{_IS}|{_BLANK}(?!-)(?=\S{{0,30}}\d)){_PASSWORD}"
            rf"|(?<=-db-)pass[ \t=](\d+)|(?-i:(?<=_)PASS){_IS}{_PASSWORD}|(?<=_)pass{_IS}(?P<drawn>(?=[a-z0-9]{{8}})\w{{8,}})",
            "train.py --db-pass «1234»", "forward_pass: 123.4 ms, fwd_pass=12.3ms, num_pass=2, two_pass: on, N_PASS=12", _KEYWORDS),
        ("pw", "pw",
            rf"(?!(?<![;\w])(?-i:PWD)\b)(?<!(?-i:OLD))(?:pwd|(?<![a-z])pw|(?<=bind)pw)(?![a-z])(?:{_IS}|(?<=-pw){_BLANK}|(?<=-pwd){_BLANK}|(?<=bindpw){_BLANK})"
            rf"(?![/~.]|[a-z]:){_PASSWORD}",
            "train.py --pw=«hunter2»", "PWD=runs OLDPWD=/srv/x pwd: ~/runs pwd: 12.5", _KEYWORDS),
        ("pre-shared key", "psk", rf"(?<![a-z])psk{_IS}{_PASSWORD}", 'psk="«letmein99»"', "psk: 16", "logs"),
        ("Sidekiq", "contribsys__com", r"contribsys__com[=:][ \t]?([0-9a-f]{8}:[0-9a-f]{8})",
            "BUNDLE_ENTERPRISE__CONTRIBSYS__COM=«<hex:8>:<hex:8>»", "contribsys__com=none", "gitleaks sidekiq-secret"),
        ("personal access token", "pat", rf"(?-i:(?<=_)PAT){_IS}{_DRAWN}",
            "AZURE_DEVOPS_EXT_PAT=«<lower:52>»", "DATA_PAT=train_20240101_*.jsonl", "gitleaks generic-api-key"),
        ("authorization", "auth",
            rf"auth(?:orization)?{_IS}(?:(?:basic|bearer|token)[ \t]+({_VALUE})|{_HEX}|{_DRAWN})|(?-i:(?<=[A-Z]_)AUTH=){_PASSWORD}",
            "'Authorization': 'Basic «<mixed:30>»'", "author: someone use_auth=true USE_AUTH=1", "gitleaks curl-auth-header"),
        ("bearer", "bearer", rf"bearer[ \t]+({_VALUE})",
            "Bearer «<mixed:30>»", "bearer of news", "gitleaks curl-auth-header"),
        ("digest", "response=", r"response=\\*[\"']?([0-9a-f]{32})",
            'Digest username="ada", response="«<hex:32>»"', "response=ok", "logs"),
        ("cookie", "cookie", r"cookie\\?[\"']?:[ \t]+(?:(?<=\": )\"([^\"\n]{8,})|([^\s\"'=]{1,99}=[^\r\n\t\"']{4,}))",
            "> Cookie: «session=abcdef123456; theme=dark»", '"cookie": 4, "loss": 2.5, "time": 0.25', "logs"),
        ("session", "_session=", r"_session=([0-9a-f]{32})",
            "_gitlab_session=«<hex:32>»", "new_session=1", "gitleaks gitlab-session-cookie"),
        ("signature", "sig", rf"sig(?:nature)?{_IS}(?:([\w%+/=-]{{40,}})|{_HEX})",
            "X-Amz-Signature=«<hex:64>»", "signature: (int, str)", "detect-secrets KeywordDetector"),
        ("value before its name", "value",
            rf"value\\*[\"']?[ \t]*[:=][ \t]*\\*[\"']((?!{_FIGURE}|{_NOTHING})[^\"'\\\n]{{4,}})\\*[\"'],?\s{{0,20}}\\*[\"']?(?:name|key)"
            r"\\*[\"']?[ \t]*[:=][ \t]*\\*[\"'][\w.-]{0,60}(?:passw|secret|token\b|(?:api|access|private)[-_]?key)",
            '{"value": "«hunter22xy»", "name": "DB_PASSWORD"}', '{"value": "cosine", "name": "schedule"}', "gitleaks nuget-config-password"),
        # Blocks of lines: of a private key only what stands in one line with its beginning.
        ("private key", "-----begin", r"-----begin [a-z0-9 ]{0,40}private key(?: block)?-----((?:\\+[nr]|[\w+/=:, .-])+?)(?=\\*[\"']|-----|\r?$)",
            '"-----BEGIN PRIVATE KEY-----«\\n<mixed:64>\\n»-----END PRIVATE KEY-----"', "-----BEGIN CERTIFICATE-----", "gitleaks private-key, detect-secrets PrivateKeyDetector"),
        ("Kubernetes", "kind:", rf"kind:[ ]?secret\b[^\0]{{0,400}}?data:[ ]?\n({_PAIRS})", "kind: Secret\ndata:\n«  config: <mixed:24>»\ntype: Opaque", "kind: Secret", "gitleaks kubernetes-secret-yaml"),
        ("Kubernetes", "data:", rf"data:[ ]?\n({_PAIRS})(?=(?:[^\n]{{0,200}}\n){{0,3}}?[^\n]{{0,60}}kind:[ ]?secret\b)", "data:\n«  config: <mixed:24>»\nkind: Secret", "data:\n  a: abc\nkind: ConfigMap", "gitleaks kubernetes-secret-yaml"),
        # Programs and addresses that take one.
        ("user and password of an address", "://", r"://([^\s/@:]*:[^\s/@]+|(?<=https://)[^\s/@:]{8,})@",
            "git clone https://«ada:pw-1»@git.example.com/x", "tcp://10.0.0.1:29500 ssh://git@example.com/x", "detect-secrets BasicAuthDetector"),
        ("parameter of an address", "?|&|%3f|%26",
            r"(?:[?&]|%3f|%26)(?:amp;)?(?:[\w-]{0,30}[-_])?(?:token|key|sig|signature|jwt|passw(?:or)?d|pwd?|secret|auth|session)(?:=|%3d)"
            rf"(?!{_NOTHING}|\d+(?!\w))([^\s&\"'`#<>]{{8,}})",
            "https://h.example.com/?token=«abcDEF123456»", "https://h.example.com/?token=none&key=1", "gitleaks generic-api-key"),
        ("curl", "curl", r"curl\b[^\n]{0,200}?[ \t](?:-u|--user)[ \t=]*[\"']?[^\s:\"']{1,99}:([^\s\"']+)",
            "curl -s -u ada:«letmein99» https://api.example.com", "curl -o ada:x https://example.com", "gitleaks curl-auth-user"),
        ("login", "login",
            r"login\b[^\n]{0,80}?[ \t](?:-p[ \t]*(\S+)|((?=[\w-]{0,99}\d)(?=[\w-]{0,99}[a-z])[\w-]{20,}))",
            "+ wandb login «<hex:40>»", "login successful for user ada on this machine", "logs"),
        ("sshpass", "sshpass", rf"sshpass[ \t]+-p[ \t]*{_WORD}",
            "sshpass -p «hunter2» ssh gpu", "sshpass -f file ssh gpu", "logs"),
        ("user and password of a command", "-u|--user", rf"(?<=[ \t])(?:-u|--user(?:name)?)[ \t=]\S{{1,99}}[ \t]+(?-i:-p)[ \t]*(?![\d:]+(?!\w)){_WORD}",
            "push -u ada -p «letmein99»", "docker run -u 1000 -v x", "logs"),
        ("client of a database", "mysql|maria|snowsql|mongo|redis-cli|ldap",
            rf"(?:(?:mysql|maria)\w{{0,20}}\b[^\n|;]{{0,200}}?[ \t](?-i:-p)|snowsql\b[^\n|;]{{0,200}}?[ \t](?-i:-p)[ \t]?"
            rf"|mongo\w{{0,20}}\b[^\n|;]{{0,200}}?[ \t](?-i:-p)[ \t]?|redis-cli\b[^\n|;]{{0,200}}?[ \t]-a[ \t]?"
            rf"|ldap\w{{1,20}}[ \t][^\n|;]{{0,200}}?[ \t](?-i:-w)[ \t]?){_WORD}",
            "mysql -u ada -p«hunter2» runs", "mysql -P 3306 -p runs", "logs"),
        ("pipe into a login", "echo|printf",
            rf"(?:echo|printf)[ \t]+(?:-n[ \t]+)?{_WORD}{_QUOTE}[ \t]*\|[^\n|]{{0,99}}?(?:--\w+-stdin|login|sudo -S|kinit)",
            "echo «hunter2» | docker login --password-stdin", "echo step 5 | tee -a log", "logs"),
        ("openssl", "pass:", rf"(?:(?<=-pass )|(?<=-passin )|(?<=-passout ))pass:((?!{_NOTHING}){_ANYTHING})",
            "openssl enc -pass pass:«hunter2»", "first pass: 12 of 12", "logs"),
        ("wandb", "wandb", r"wandb[^\w\n]{1,40}([0-9a-f]{40})\b",
            "│ wandb │ «<hex:40>» │", "wandb version 0.17.0", "logs"),
        ("webhook", "hooks.slack.com/|webhook|/v2/hook/", r"(?:hooks\.slack\.com/|/v2/hook/|webhook(?:\.office\.com/webhookb2|s)/)([\w./@-]{20,})",
            "https://hooks.slack.com/«services/T01ABCDEF/B02ABCDEF/<mixed:24>»", "webhooks/none", "gitleaks slack-webhook-url, microsoft-teams-webhook"),
        ("netrc", "machine|login",
            rf"(?:machine[ \t]+\S{{1,99}}\s{{1,40}})?login[ \t]+\S{{1,99}}(?:(?<=\S){_NEXT_LINE}[ \t]{{0,60}})password[ \t]+(?!auth|prompt|required|incorrect|failed)(\S+)[ \t]*\r?$"
            r"|machine[ \t]+\S{1,99}\s{1,40}login[ \t]+\S{1,99}\s{1,40}password[ \t]+(\S+)",
            "login ada\npassword «letmein»", "login with password authentication", "logs"),
        ("item below the one that names it", "password|token|secret|api-key|api_key",
            rf"(?:(?<=-[ \t])|(?<=[-_])|(?<=-[ \t][\"']))(?:password|token|secret|api[-_]key)[\"']?{_NEXT_LINE}[ \t]{{0,60}}-[ \t][\"']?"
            r"((?=[a-z-]{0,60}\d)(?=[\d-]{0,60}[a-z])[a-z\d-]{8,})[\"']?[ \t]*\r?$",
            "args:\n  - --hub-token\n  - «abcd-1234-efgh»", "columns:\n- token\n- position_id", "logs"),
        ("rclone", "pass", r"(?<![^\n])pass[ \t]{0,9}=[ \t]{0,9}((?=[a-z_-]{0,60}\d)(?=[\d_-]{0,60}[a-z])[\w-]{7,})[ \t]*\r?$",
            "[remote]\npass = «Ab3dEf6hIj9kLmN»", "pass = 2 of 3\npass = forward", "logs"),
        ("session of a web server", "phpsessid|jsessionid", r"(?:phpsessid|jsessionid)\\*[\"']?[=:][ \t]?\\*[\"']?([\w,.!-]{8,})",
            "PHPSESSID=«<lower:26>»", "PHPSESSID=none", "logs"),
        ("words of a wallet", "mnemonic|phrase", r"(?:mnemonic|phrase)\\*[\"']?[ \t]{0,9}[:=][ \t]{0,9}\\*[\"']?((?:[a-z]{3,8}[ ]){11,23}[a-z]{3,8})\\*[\"']?[ \t]{0,9}(?=[,;}]|\r?$)",
            'mnemonic: "«legal winner thank year wave sausage worth useful legal winner thank yellow»"', "phrase: to be or not to be", "logs"),
        ("JSON web key", '"d"|"k"|"p"|"q"', r"\"[dkpq]\"[ ]?:[ ]?\"(?P<drawn>[\w-]{32,})\"",
            '{"kty": "EC", "d": "«<mixed:43>»"}', '{"d": "models/llama-3.1-8b", "k": "layers"}', "detect-secrets KeywordDetector"),
        ("archive", "7z|zip",
            rf"(?:7z[arz]?[ \t][^\n|;&]{{0,200}}?[ \t](?-i:-p)(?=\S)|zip[ \t](?:[^\n|;&]{{0,200}}?[ \t])?(?-i:-P)[ \t]?){_WORD}",
            "unzip -P «hunter2» a.zip", "zip -p runs.zip a; 7z a -t7z runs.7z", "logs"),
        ("openssl, smbclient", "openssl|smbclient",
            rf"openssl[ \t][^\n|;&]{{0,200}}?[ \t]-k[ \t]+{_WORD}|smbclient\b[^\n|;]{{0,200}}?[ \t](?:-u|--user)[ \t=]?[\"']?[^\s\"'%]{{1,99}}%([^\s\"']+)",
            "smbclient //h/s -U 'DOM\\ada%«hunter2»'", "openssl version && curl -k https://x", "logs"),
        ("hash of a password", "$apr1$|$1$|$5$|$6$|$8$|$9$|$2a$|$2b$|$2y$|$y$|$argon2",
            r"(\$(?:apr1|[15689])\$(?:rounds=\d{1,9}\$)?[\w./]{1,16}\$[\w./]{22,}|\$2[aby]\$\d\d\$[\w./]{53}|\$y\$[\w./]{1,9}\$[\w./]{1,99}\$[\w./]{22,}"
            r"|\$argon2(?:id?|d)\$[\w$,=+/.-]{40,})",
            "root:«$6$abcdefgh$<mixed:86>»:19000", "from $1$ to $6$", "logs"),
        ("sentence, password", "password",
            rf"password[ \t](?:for[ \t][^\s:]{{1,60}}:|is:?)[ \t]+{_QUOTE}(?!base\d|sha\d|md5|utf)((?=\S{{0,60}}\d)(?=[^\s\w]{{0,9}}\w)(?=\S{{0,60}}[a-z])[^\s\"'`]{{6,}}?)[\"'`]?[.,;!]?(?=\s|$)",
            "the password is «hunter2».", "the password is incorrect, the password is base64-encoded", "logs"),
        ("sentence, key", "key is|token is|secret is",
            rf"(?:{_behind('(?:key|token|secret)', _OWNERS)})[ ]is:?[ \t]+{_QUOTE}((?=\S{{0,60}}\d){_VALUE})",
            "Your API key is: «abcdef-123456»", "the key is layers.12.attention, the API key is not-configured", "logs"),
        # Words that are known by their own letters.
        ("Hugging Face", "hf_|api_org_", r"(?<![a-z0-9])((?:hf|api_org)_[a-z0-9]{16,})",
            "using «hf_<mixed:34>»", "hf_model_name, hf_<TOKEN>", "gitleaks huggingface-access-token"),
        ("GitLab, NGC, Slack", "glpat-|nvapi-|xox|xapp-", r"(?<![a-z0-9])((?:glpat|nvapi|xox[a-z]|xapp)-[\w-]{8,})",
            "using «glpat-<mixed:20>»", "xoxo-x", "gitleaks gitlab-pat, slack-bot-token"),
        ("OpenAI, Anthropic", "sk-",
            r"(?<![a-z0-9])(sk-(?:(?:proj|svcacct|admin|ant-[a-z]+\d*|or-v1|lf)-(?=[\w-]{0,99}\d)[\w-]{16,}|(?=[a-z]{0,99}\d)[a-z0-9]{16,}))",
            "using «sk-proj-<mixed:40>»", "sk-h100-8x-llama3-bf16-20240101", "gitleaks openai-api-key, anthropic-api-key"),
        ("Google", "aiza|1//0", r"(?<![a-z0-9])(?-i:(AIza[\w-]{20,}|1//0[\w-]{20,}))",
            "using «AIza<mixed:35>»", "1//0 of it", "gitleaks gcp-api-key"),
        ("AWS, Alibaba, Tencent, Yandex, Atlassian, Facebook, Square", "akia|asia|abia|acca|absk|a3t|ltai|akid|aklt|aqvn|atatt3|atctt3|atbb|eaaa|eaac|eaam|aaaaaaaaaaaaaaaaaaaaaa",
            r"(?<![a-z0-9])(?-i:((?:A[KS]IA|ABIA|ACCA|ABSK|A3T[A-Z0-9]|LTAI)[\w+/=]{12,}"
            r"|(?:AKID|AKLT|AQVN|ATATT3|ATCTT3|ATBB|EAA[ACM])(?=[A-Za-z_-]{0,60}\d)[\w=-]{28,}|A{22}(?=[A-Za-z]{0,60}\d)[\w%]{80,}))",
            "AWS_ACCESS_KEY_ID: «AKIA<upper:16>»", "in asia, of ACCA, AKIDs and EAAC", "gitleaks aws-access-token, alibaba-access-key-id, atlassian-api-token, facebook-page-access-token, square-access-token, yandex-api-key, twitter-bearer-token"),
        ("web token, Artifactory", "akcp|cmvm|eyj|zxlk",
            r"(?<![a-z0-9])(?-i:((?:AKCp|cmVmd|ZXlK)[\w+/=]{16,}|eyJ[\w-]{8,}(?:\.[\w-]*)*))",
            "session «eyJ<mixed:20>.eyJ<mixed:40>.<mixed:40>»", "eyJ", "gitleaks jwt, artifactory-api-key"),
        ("Databricks", "dapi", r"(?<![a-z0-9])(dapi[0-9a-f]{32})",
            "using «dapi<hex:32>»", "dapi: 3", "gitleaks databricks-api-token"),
        ("Azure", "q~", r"(?-i:([\w.~-]{3}\dQ~[\w.~-]{31,40}))",
            "using «<mixed:3>8Q~<mixed:34>»", "q~1", "gitleaks azure-ad-client-secret"),
        ("Telegram", ":aa", r"(?<=\d):(?-i:(AA[\w-]{33}))",
            "bot 123456789:«AA<mixed:33>» answers", "12:AA", "gitleaks telegram-bot-api-token"),
        ("Twilio, Baidu", "sk|ac", rf"(?<![a-z0-9])(?-i:((?:SK|AC)[0-9a-f]{{32}}))(?![a-z0-9])|(?-i:(?<=_)SK){_IS}{_HEX}",
            "using «SK<hex:32>»", "SKU 12", "gitleaks twilio-api-key"),
        ("Mailchimp", "-us", r"(?<![\w-])([0-9a-f]{32}-us\d{1,2})\b",
            "using «<hex:32>-us12»", "a-us1", "gitleaks mailchimp-api-key"),
        ("EasyPost, GitLab runner, ClickHouse", "ezak|eztk|gr1348941|4b1d",
            r"(?<![a-z0-9])(?-i:(EZ[AT]K[A-Za-z0-9]{40,}|GR1348941[\w-]{20}|4b1d[A-Za-z0-9]{38}\b))",
            "using «EZAK<mixed:54>»", "4b1d2c", "gitleaks easypost-api-token, gitlab-rrt, clickhouse-cloud-api-secret-key"),
    )
)  # fmt: skip
"""By name, by program or by letters of their own that stand anywhere. Keep the marks few: each is
looked for in all.
"""

_REST = r"[\w.~+/=-]{16,}"
ISSUED_FORMS = tuple(
    IssuedForm(*row)
    for row in (
        ("1Password", "ops_ A3-", _REST, "ops_«eyJ<mixed:60>»", "ops_per_second", "gitleaks 1password-service-account-token"),
        ("Adobe", "p8e-", _REST, "p8e-«<lower:32>»", "p8e-runs", "gitleaks adobe-client-secret"),
        ("age", "AGE-SECRET-KEY-", _REST, "AGE-SECRET-KEY-«1<upper:40>»", "AGE-SECRET-KEY-none", "gitleaks age-secret-key"),
        ("Bedrock", "bedrock-api-key-", _REST, "bedrock-api-key-«<mixed:40>»", "bedrock-api-key-rotation", "gitleaks aws-amazon-bedrock-api-key-short-lived"),
        ("Beamer", "b_", r"(?P<drawn>[\w=-]{44})", "b_«<lower:44>»", "b_proj", "gitleaks beamer-api-token"),
        ("Clojars", "CLOJARS_", _REST, "CLOJARS_«<lower:60>»", "CLOJARS_URL", "gitleaks clojars-api-token"),
        ("Cloudflare", "v1.0-", r"[0-9a-f]{24}-[0-9a-f]{100,}", "v1.0-«<hex:24>-<hex:146>»", "v1.0-rc1", "gitleaks cloudflare-origin-ca-key"),
        ("Defined Networking", "dnkey-", _REST, "dnkey-«<lower:26>-<lower:52>»", "dnkey-x", "gitleaks defined-networking-api-token"),
        ("DigitalOcean", "dop_v1_ doo_v1_ dor_v1_", _REST, "dop_v1_«<hex:64>»", "dop_v1_x", "gitleaks digitalocean-pat"),
        ("Docker Hub", "dckr_pat_ dckr_oat_", _REST, "dckr_pat_«<mixed:27>»", "dckr_pat_x", "logs"),
        ("Doppler", "dp.pt. dp.st. dp.ct.", _REST, "dp.pt.«<mixed:43>»", "dp.pt.x", "gitleaks doppler-api-token"),
        ("Duffel", "duffel_test_ duffel_live_", _REST, "duffel_live_«<mixed:43>»", "duffel_test_x", "gitleaks duffel-api-token"),
        ("Dynatrace", "dt0c01.", _REST, "dt0c01.«<upper:24>.<upper:64>»", "dt0c01.x", "gitleaks dynatrace-api-token"),
        ("Flutterwave", "FLWSECK_TEST- FLWPUBK_TEST-", r"[\w-]{12,}", "FLWSECK_TEST-«<lower:32>-X»", "FLWPUBK_TEST-x", "gitleaks flutterwave-secret-key"),
        ("Fly", "fo1_ fm1a_ fm1r_ fm2_", _REST, "fo1_«<mixed:43>»", "fm2_x", "gitleaks flyio-access-token"),
        ("Frame.io", "fio-u-", _REST, "fio-u-«<mixed:64>»", "fio-u-x", "gitleaks frameio-api-token"),
        ("GitHub", "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_", r"\w{16,}", "cloning with ghp_«<mixed:36>»", "ghp_runner_of_10", "gitleaks github-pat"),
        ("GitLab", "glrt- gldt- glft- glsoat- glcbt- glimt- glptt- glagent- gloas- glffct-", _REST, "glrt-«<mixed:20>»", "glrt-x", "gitleaks gitlab-runner-authentication-token"),
        ("GoCardless, Lob", "live_ test_", r"(?P<drawn>[\w=-]{35,})", "live_«<mixed:40>»", "test_time_between_eval_and_checkpoint_2_of_3_runs_ends", "gitleaks gocardless-api-token"),
        ("Google OAuth", "ya29. GOCSPX-", _REST, "ya29.«<mixed:60>»", "ya29.x", "gitleaks gcp-api-key"),
        ("Grafana", "glc_ glsa_", _REST, "glsa_«<mixed:32>_<hex:8>»", "glc_x", "gitleaks grafana-service-account-token"),
        ("Groq, xAI, Replicate, Fireworks", "gsk_ xai- r8_ fw_ tgp_v1_ csk-", r"(?P<drawn>\w{24,})", "gsk_«<mixed:52>»", "fw_layers", "logs"),
        ("Harness", "pat. sat.", r"[\w-]{22}\.\w{24}\.\w{20}", "pat.«<mixed:22>.<hex:24>.<mixed:20>»", "pat.x", "gitleaks harness-api-key"),
        ("HubSpot, Amazon MWS", "pat-na1- pat-eu1- amzn.mws.", r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", "pat-na1-«<hex:8>-<hex:4>-<hex:4>-<hex:4>-<hex:12>»", "pat-na1-server", "logs"),
        ("Heroku", "HRKU-", _REST, "HRKU-«AA<mixed:58>»", "HRKU-x", "gitleaks heroku-api-key-v2"),
        ("Infracost", "ico-", _REST, "ico-«<mixed:32>»", "ico-x", "gitleaks infracost-api-token"),
        ("Intra42", "s-s4t2ud- s-s4t2af-", _REST, "s-s4t2ud-«<hex:64>»", "s-s4t2ud-x", "gitleaks intra42-client-secret"),
        ("LangSmith", "lsv2_pt_ lsv2_sk_ ls__", _REST, "lsv2_pt_«<hex:32>_<hex:10>»", "ls__x", "logs"),
        ("Linear", "lin_api_ lin_oauth_", _REST, "lin_api_«<lower:40>»", "lin_api_x", "gitleaks linear-api-key"),
        ("Mailgun", "key- pubkey-", r"[0-9a-f]{32}\b", "key-«<hex:32>»", "key-value", "gitleaks mailgun-private-api-token"),
        ("Mapbox", "pk. sk.", r"[a-z0-9]{60,}\.[\w-]{20,}", "pk.«<lower:60>.<lower:22>»", "pk.x", "gitleaks mapbox-api-token"),
        ("New Relic", "NRAK- NRJS- NRII-", _REST, "NRAK-«<upper:27>»", "NRAK-x", "gitleaks new-relic-user-api-key"),
        ("Modal", "ak- as-", r"(?P<drawn>[A-Za-z0-9]{22})\b", "ak-«<mixed:22>»", "as-is", "logs"),
        ("Neptune, Comet", "neptune_ comet_", r"(?P<drawn>\w{24,})", "neptune_«<mixed:40>»", "neptune_logger", "logs"),
        ("Notion", "ntn_ secret_", r"(?:\d{11}\w{30,}|(?P<drawn>[\w.]{40,}))", "ntn_«12345678901<mixed:35>»", "ntn_x", "gitleaks notion-api-token"),
        ("npm", "npm_", _REST, "npm_«<mixed:36>»", "npm_config", "gitleaks npm-access-token"),
        ("Octopus Deploy", "API-", r"(?=[A-Z]*\d)[A-Z0-9]{24,}", "API-«<upper:26>»", "API-LEVEL", "gitleaks octopus-deploy-api-key"),
        ("OpenShift", "sha256~", r"[\w-]{43}", "sha256~«<mixed:43>»", "sha256~x", "gitleaks openshift-user-token"),
        ("Perplexity", "pplx-", _REST, "pplx-«<mixed:48>»", "pplx-70b-online", "gitleaks perplexity-api-key"),
        ("Pinecone, Voyage, Weaviate", "pcsk_ pa-", r"(?P<drawn>[\w-]{40,})", "pcsk_«<mixed:60>»", "pa-x", "logs"),
        ("Plaid", "access-sandbox- access-development- access-production-", _REST, "access-sandbox-«<hex:8>-<hex:4>-<hex:4>-<hex:4>-<hex:12>»", "access-production-data", "gitleaks plaid-api-token"),
        ("PlanetScale", "pscale_tkn_ pscale_oauth_ pscale_pw_", _REST, "pscale_pw_«<mixed:43>»", "pscale_tkn_x", "gitleaks planetscale-password"),
        ("Postman", "PMAK-", _REST, "PMAK-«<hex:24>-<hex:34>»", "PMAK-x", "gitleaks postman-api-token"),
        ("Prefect", "pnu_", _REST, "pnu_«<mixed:36>»", "pnu_x", "gitleaks prefect-api-token"),
        ("Pulumi", "pul-", _REST, "pul-«<hex:40>»", "pul-request", "gitleaks pulumi-api-token"),
        ("PyPI", "pypi-", r"[\w-]{40,}", "pypi-«AgEIcHlwaS5vcmc<mixed:60>»", "pypi-mirror", "gitleaks pypi-upload-token, detect-secrets PypiTokenDetector"),
        ("ReadMe", "rdme_", _REST, "rdme_«<lower:70>»", "rdme_x", "gitleaks readme-api-token"),
        ("RubyGems", "rubygems_", _REST, "rubygems_«<hex:48>»", "rubygems_x", "gitleaks rubygems-api-token"),
        ("Scalingo", "tk-us-", _REST, "tk-us-«<mixed:48>»", "tk-us-x", "gitleaks scalingo-api-token"),
        ("SendGrid, Brevo", "SG. xkeysib-", _REST, "SG.«<mixed:22>.<mixed:43>»", "SG.x", "gitleaks sendgrid-api-token, detect-secrets SendGridDetector"),
        ("Sentry", "sntrys_ sntryu_", _REST, "sntryu_«<hex:64>»", "sntrys_x", "gitleaks sentry-user-token"),
        ("SettleMint", "sm_aat_ sm_pat_ sm_sat_", r"(?=[A-Za-z]*\d)[A-Za-z0-9]{16}", "sm_pat_«a1<mixed:14>»", "sm_pat_x", "gitleaks settlemint-personal-access-token"),
        ("Shippo", "shippo_live_ shippo_test_", _REST, "shippo_live_«<hex:40>»", "shippo_test_x", "gitleaks shippo-api-token"),
        ("Shopify", "shpat_ shpca_ shppa_ shpss_", _REST, "shpat_«<hex:32>»", "shpat_x", "gitleaks shopify-access-token"),
        ("Sonar, Sourcegraph", "squ_ sqp_ sqa_ sgp_", _REST, "squ_«<hex:40>»", "sqa_x", "gitleaks sonar-api-token, sourcegraph-access-token"),
        ("Square", "sq0atp- sq0csp-", r"(?=[A-Za-z_-]*\d)[\w-]{22,}", "sq0csp-«<mixed:43>»", "sq0atp-x", "gitleaks square-access-token, detect-secrets SquareOAuthDetector"),
        ("Stripe", "sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_ whsec_", r"(?=[A-Za-z]*\d)\w{10,}", "sk_live_«<mixed:24>»", "sk_test_x", "gitleaks stripe-access-token, detect-secrets StripeDetector"),
        ("Supabase, Resend", "sbp_ sb_secret_ re_", r"(?P<drawn>\w{24,})", "sbp_«<hex:40>»", "re_compute", "logs"),
        ("Tailscale", "tskey-", _REST, "tskey-«auth-k1<mixed:20>-<mixed:30>»", "tskey-x", "logs"),
        ("Typeform", "tfp_", _REST, "tfp_«<mixed:59>»", "tfp_x", "gitleaks typeform-api-token"),
        ("Vault", "hvs. hvb. hvr. s.", r"(?P<drawn>[\w-]{24,})", "hvs.«<mixed:90>»", "s.model_parallel_size_and_data_parallel_2", "gitleaks vault-service-token"),
        ("wandb", "wandb_v1_ local-", r"(?P<drawn>\w{24,})", "wandb_v1_«<mixed:77>»", "local-rank", "logs"),
        ("Yandex", "t1.", r"[\w-]{35,}={0,2}\.[\w-]{60,}", "t1.«<mixed:80>.<mixed:86>»", "t1.x", "gitleaks yandex-api-key"),
        # Whole words.
        ("Discord", "", r"(?-i:[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,38})", "«M<mixed:23>.<mixed:6>.<mixed:27>»", "Model.layers.0", "detect-secrets DiscordBotTokenDetector"),
        ("ElevenLabs", "", r"sk_[0-9a-f]{48}", "«sk_<hex:48>»", "sk_buff", "logs"),
        ("Airtable", "", r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}", "«pat<mixed:14>.<hex:64>»", "path.pt", "gitleaks airtable-personnal-access-token"),
        ("Terraform", "", r"[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{60,70}", "«<mixed:14>.atlasv1.<mixed:60>»", "x.atlasv1.y", "gitleaks hashicorp-tf-api-token"),
        ("MaxMind", "", r"\w{6}_\w{29}_mmk", "«<mixed:6>_<mixed:29>_mmk»", "x_mmk", "gitleaks maxmind-license-key"),
        ("Authress", "", r"(?:sc|ext|scauth|authress)_[a-z0-9]{5,30}\.[a-z0-9]{4,6}\.acc[_-][\w-]{10,32}\.[\w+/=-]{30,}", "«sc_<lower:10>.<lower:4>.acc-<lower:12>.<mixed:40>»", "ext_modules.cuda", "gitleaks authress-service-client-access-key"),
    )
)  # fmt: skip
"""Words that are looked at where letters and digits are in one another: their number costs nothing
elsewhere.
"""
