// SPDX-License-Identifier: Apache-2.0
/*
 * The table of settings, and the parsing of each kind of value. Every value is checked against its
 * bounds here; config_check.c checks settings against each other.
 */
#include "daemon/config/setting.h"

#include "base/parse.h"
#include "base/text/decimal.h"
#include "base/units.h"
#include "broker/broker.h"
#include "daemon/config/quantity.h"
#include "identity/identity.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#define POOL_MAX 1024
#define SWAP(type, x, y)                                                                           \
	do {                                                                                       \
		type swapped_ = (x);                                                               \
		(x) = (y);                                                                         \
		(y) = swapped_;                                                                    \
	} while (0)

#define AT(member) offsetof(struct config, member)

/* clang-format off */
#define DEFAULT(a, member, name, kind, least, most, usual, ceiling, fixed, setting, option, about, ...) \
	{"defaults", setting, "default-" option, SETTING_##kind, AT(default_limits.member), least, most, about},
#define CEILING(a, member, name, kind, least, most, usual, ceiling, fixed, setting, option, about, about_ceiling, ...) \
	{"ceilings", setting, "max-" option, SETTING_##kind, AT(max_limits.member), least, most, about_ceiling},

const struct setting settings[] = {
	{NULL, NULL, "config", SETTING_STRING, AT(file), 0, 0, "settings file (default " CONFIG_FILE ")"},
	{"", "listen", "listen", SETTING_LIST, AT(listen), 0, 0, "ADDRESS:PORT to listen on; give it again for more. Without it only the unix socket is served", true},
	{"", "socket", "socket", SETTING_STRING, AT(socket), 0, 0, "path of the unix socket (default RUN/cloche.sock), or none", true},
	{"", "data", "data", SETTING_STRING, AT(data_dir), 0, 0, "directory of the database and the sandboxes' disks (default /var/lib/cloche)", true},
	{"", "run", "run", SETTING_STRING, AT(run_dir), 0, 0, "directory of sockets, and of records of what runs (default /run/cloche)", true},
	{"", "hosts", "host", SETTING_LIST, AT(hosts), 0, 0, "a Host name that clients may use; give it again for more. *: any"},
	{"", "tls_cert", "tls-cert", SETTING_STRING, AT(tls_cert), 0, 0, "certificate chain (PEM), to serve HTTPS on the TCP listeners"},
	{"", "tls_key", "tls-key", SETTING_STRING, AT(tls_key), 0, 0, "private key (PEM) of that certificate"},
	{"", "user", "user", SETTING_STRING, AT(user), 0, 0, "user of the gateway process (default cloche)", true},
	{"", "agent", "agent", SETTING_STRING, AT(agent), 0, 0, "path of the agent's program", true},
	{"", "log_level", "log-level", SETTING_LEVEL, AT(log_level), 0, 0, "how much is logged: debug, info, warn or error"},
	{"", "sandboxes_max", "sandboxes-max", SETTING_COUNT, AT(sandboxes_max), 1, BROKER_SLOTS, "most sandboxes that exist at once"},
	{"", "uid_base", "uid-base", SETTING_COUNT64, AT(uid_base), BROKER_UID_BASE, BROKER_UID_BASE + (BROKER_SLOTS - 1) * BROKER_UIDS, "first uid of sandboxes, a multiple of 65536; two daemons on one kernel need different ones", true},
	{"", "uid_ranges", "uid-ranges", SETTING_COUNT, AT(uid_ranges), 0, BROKER_SLOTS, "how many times 65536 uids sandboxes may have, one for each that exists at once; 0: all from uid_base up", true},
	{"", "persistent_max", "persistent-max", SETTING_COUNT, AT(persistent_max), 0, 1000000, "most persistent sandboxes, running or not"},
	{"", "ended_max", "ended-max", SETTING_COUNT, AT(ended_max), 1, 1000000, "how many ended sandboxes are remembered"},
	{"", "ended_age", "ended-age", SETTING_DURATION, AT(ended_age_ms), 1000, 3650 * DAY_MS, "how long an ended sandbox is remembered"},
	{"", "ended_output", "ended-output", SETTING_SIZE, AT(ended_bytes), 0, TIB, "how much output of ended sandboxes is kept, of all together"},
	{"", "execs_max", "execs-max", SETTING_COUNT, AT(execs_max), 1, 100000, "how many execs of a sandbox are kept"},
	{"", "spool", "spool", SETTING_SIZE, AT(spool_bytes), 64 * KIB, TIB, "how much output of one exec is kept"},
	{"", "request_max", "request-max", SETTING_SIZE, AT(request_bytes), MIB, TIB, "most bytes in the body of a request, uploads included"},
	{"", "plain_storage", "plain-storage", SETTING_BOOL, AT(is_plain_storage), 0, 0, "use plain directories instead of btrfs: there is no disk limit then", true},
	{"", "disk_reserve", "disk-reserve", SETTING_SIZE, AT(disk_reserve), 0, 1024 * TIB, "room that is kept free for the daemon's own files on the data directory's disk; 0: a twentieth of it, 1 GiB at most"},
	{"", "disk_ahead", "disk-ahead", SETTING_SIZE, AT(disk_ahead), 0, TIB, "how much of the disk the sandboxes' filesystem has allocated ahead of what they write, 128 MiB at least; 0: an eighth of the disk, 2 GiB at most"},
	{"", "compat_wait", "compat-wait", SETTING_DURATION, AT(compat_wait_ms), 0, 3600000, "how long a create of an E2B or Vercel client waits where its quota or the host is full (default 30s); 0s: it is refused at once"},
	{"", "metrics_open", "metrics-open", SETTING_BOOL, AT(is_metrics_open), 0, 0, "serve /metrics to anybody, without a key"},
	{"", "webhooks_allow", "webhooks-allow", SETTING_LIST, AT(webhooks_allow), 0, 0, "range that webhooks may be sent to though it is not public; give it again for more"},
	{"", "watchdog", "watchdog", SETTING_DURATION, AT(watchdog_ms), 0, DAY_MS, "how long a part of the daemon may be stuck before it is replaced (default 30s); 0s: for ever"},
	{"templates", "default", "default-template", SETTING_STRING, AT(default_template), 0, 0, "template of sandboxes that name none (default python, or host while there is no python)"},
	{"preview", "domain", "preview-domain", SETTING_STRING, AT(preview_domain), 0, 0, "serve the ports of sandboxes as PORT-ID.DOMAIN; without tls_cert, TLS has certificates of the daemon's own authority (cloche trust)"},
	{"preview", "url", "preview-url", SETTING_STRING, AT(preview_url), 0, 0, "URL under which clients reach this daemon, such as https://sandboxes.example.com"},
	{"network", "resolvers", "resolver", SETTING_LIST, AT(network_resolvers), 0, 0, "DNS server for names that sandboxes ask for, ADDRESS[:PORT]; give it again for more (default: the host's)"},
	{"network", "never", "network-never", SETTING_LIST, AT(network_never), 0, 0, "range that no policy of a sandbox may open; give it again for more"},
	{"network", "may_open", "network-may-open", SETTING_LIST, AT(network_may_open), 0, 0, "range of the host's own, link-local or metadata addresses that a policy may open by naming it; give it again for more (default: none)"},
	{"network", "ca_file", "network-ca-file", SETTING_STRING, AT(network_ca_file), 0, 0, "certificates (PEM) to trust, beside those that the host trusts, where a policy looks into TLS"},
	{"secrets", "key_file", "secrets-key-file", SETTING_STRING, AT(secrets_key_file), 0, 0, "file with the key that seals secrets, 64 hexadecimal digits; further lines: older keys (default DATA/secrets.key)"},
	{"identity", "issuer", "identity-issuer", SETTING_STRING, AT(identity_issuer), 0, 0, "https URL under which clouds find this daemon: it gives sandboxes tokens then that say what they are (default: none)"},
	{"identity", "audiences", "identity-audience", SETTING_LIST, AT(identity_audiences), 0, 0, "audience that a policy may name for tokens; give it again for more (default: any)"},
	{"identity", "token", "identity-token", SETTING_DURATION, AT(identity_token_ms), IDENTITY_TOKEN_MIN_MS, IDENTITY_TOKEN_MAX_MS, "how long a token is good (default 10m)"},
	{"identity", "rotate", "identity-rotate", SETTING_DURATION, AT(identity_rotate_ms), IDENTITY_ROTATE_MIN_MS, 3650 * DAY_MS, "how long one key signs tokens before the next one does (default 30d)"},
	{"network", "connections_max", "network-connections-max", SETTING_COUNT, AT(network_connections), 1, 65536, "most connections of a sandbox at once, where its policy does not say"},
	{"login", "issuer", "login-issuer", SETTING_STRING, AT(login_issuer), 0, 0, "URL of the OpenID Connect provider that people log in at, as it names itself; without it only keys open"},
	{"login", "client_id", "login-client-id", SETTING_STRING, AT(login_client_id), 0, 0, "what the provider calls this daemon"},
	{"login", "client_secret_file", "login-client-secret-file", SETTING_STRING, AT(login_secret_file), 0, 0, "file with the secret that the provider has given for that; without it: a public client"},
	{"login", "name", "login-name", SETTING_STRING, AT(login_name), 0, 0, "what people call the provider: the login page says \"Log in with NAME\""},
	{"login", "scopes", "login-scope", SETTING_LIST, AT(login_scopes), 0, 0, "scope that is asked for; give it again for more (default openid, profile and email)"},
	{"login", "roles_claim", "login-roles-claim", SETTING_STRING, AT(login_roles_claim), 0, 0, "claim of the id token whose values give roles; dots lead into it (default groups)"},
	{"login", "roles", "login-role", SETTING_LIST, AT(login_roles), 0, 0, "VALUE=ROLE:PROJECT: whoever has that value has that role (read, write or admin) there; *: everybody; give it again for more"},
	{"login", "session", "login-session", SETTING_DURATION, AT(login_session_ms), 60000, 365 * DAY_MS, "the longest that somebody stays logged in (default 12h)"},
	{"login", "check", "login-check", SETTING_DURATION, AT(login_check_ms), 1000, DAY_MS, "time between two questions to the provider whether a session still holds (default 5m)"},
	{"output", "sandbox", "output-sandbox", SETTING_SIZE, AT(output_sandbox), MIB, TIB, "how much output of one sandbox's execs is kept; past that the oldest is removed"},
	{"output", "project", "output-project", SETTING_SIZE, AT(output_project), MIB, TIB, "how much output of one project's execs is kept"},
	{"output", "host", "output-host", SETTING_SIZE, AT(output_host), MIB, TIB, "how much output of all execs is kept; past that the project that keeps most loses its oldest"},
	{"results", "sandbox", "results-sandbox", SETTING_SIZE, AT(results_sandbox), 0, TIB, "most bytes of result files that are kept of one sandbox when it ends; 0: none are"},
	{"results", "project", "results-project", SETTING_SIZE, AT(results_project), 0, TIB, "how many bytes of results are kept of one project; past that the oldest sandbox's go"},
	{"telemetry", "otlp_url", "telemetry-otlp-url", SETTING_STRING, AT(telemetry_url), 0, 0, "URL of an OpenTelemetry collector (OTLP over HTTP), without /v1/…: metrics, traces and log lines are sent there, such as http://127.0.0.1:4318"},
	{"telemetry", "headers_file", "telemetry-headers-file", SETTING_STRING, AT(telemetry_headers_file), 0, 0, "file with header fields for the collector, such as its key: a line each, Name: value"},
	{"telemetry", "signals", "telemetry-signal", SETTING_LIST, AT(telemetry_signals), 0, 0, "what is sent to the collector: metrics, traces or logs; give it again for more (default all)"},
	{"telemetry", "interval", "telemetry-interval", SETTING_DURATION, AT(telemetry_interval_ms), 100, DAY_MS, "time between two batches to the collector"},
	{"telemetry", "traces_percent", "telemetry-traces-percent", SETTING_COUNT, AT(telemetry_percent), 0, 100, "percent of requests that are traced, of those whose client does not say so in traceparent"},
	{"telemetry", "traces_rate", "telemetry-traces-rate", SETTING_COUNT, AT(telemetry_rate), 1, 100000, "most requests of one project that are traced a second, averaged over a while, whatever their clients say"},
	{"events", "age", "events-age", SETTING_DURATION, AT(events_age_ms), 1000, 3650 * DAY_MS, "how long events are kept"},
	{"events", "size", "events-size", SETTING_SIZE, AT(events_bytes), 64 * KIB, TIB, "how many bytes of events are kept"},
	{"events", "count", "events-count", SETTING_COUNT64, AT(events_count), 100, UINT32_MAX, "how many events are kept"},
	{"events", "rate", "events-rate", SETTING_COUNT, AT(events_rate), 1, 100000, "how many events a second one sandbox may cause, averaged over a while"},
	{"audit", "s3_url", "audit-s3-url", SETTING_STRING, AT(audit_s3_url), 0, 0, "S3-compatible store that the event log and the audit log are pushed to, such as https://s3.eu-central-1.amazonaws.com/BUCKET/PREFIX"},
	{"audit", "s3_region", "audit-s3-region", SETTING_STRING, AT(audit_s3_region), 0, 0, "region of that store (default us-east-1)"},
	{"audit", "s3_credentials", "audit-s3-credentials", SETTING_STRING, AT(audit_s3_credentials), 0, 0, "file with its keys, as ~/.aws/credentials is written"},
	{"audit", "s3_interval", "audit-s3-interval", SETTING_DURATION, AT(audit_s3_interval_ms), 1000, DAY_MS, "time between two pushes of what is new"},
	{"audit", "syslog_url", "audit-syslog-url", SETTING_STRING, AT(audit_syslog_url), 0, 0, "syslog server that each entry of both logs is sent to, tcp://HOST[:PORT] or tls://HOST[:PORT]"},
	{"cluster", "postgres", "cluster-postgres", SETTING_STRING, AT(cluster_postgres), 0, 0, "PostgreSQL of the cluster that this node is in, as libpq takes it: host=db1,db2 dbname=cloche (default: none, the node is alone)", true},
	{"cluster", "address", "cluster-address", SETTING_STRING, AT(cluster_address), 0, 0, "HOST:PORT where other nodes of the cluster reach this one"},
	{"cluster", "certificate_lifetime", "cluster-certificate-lifetime", SETTING_DURATION, AT(cluster_certificate_ms), 10000, 3650 * DAY_MS, "how long the certificates are valid that this node signs for nodes; each is renewed when a third of its time is left"},
	{"cluster", "objects", "cluster-objects", SETTING_STRING, AT(cluster_objects), 0, 0, "where the cluster keeps what must outlive a node: s3://BUCKET/PREFIX, or dir:///PATH that all nodes see (default: nowhere)"},
	{"cluster", "objects_endpoint", "cluster-objects-endpoint", SETTING_STRING, AT(cluster_objects_endpoint), 0, 0, "the S3 server, https://HOST:PORT, asked by paths; with {bucket} in HOST, by a host for each bucket (default: Amazon's of the region)"},
	{"cluster", "objects_region", "cluster-objects-region", SETTING_STRING, AT(cluster_objects_region), 0, 0, "region of the bucket (default us-east-1)"},
	{"cluster", "objects_credentials", "cluster-objects-credentials", SETTING_STRING, AT(cluster_objects_credentials), 0, 0, "file with the keys for the bucket, as ~/.aws/credentials is written"},
	{"cluster", "objects_ca", "cluster-objects-ca", SETTING_STRING, AT(cluster_objects_ca), 0, 0, "file with the authority of the S3 server's certificate (default: those that the host trusts)"},
	{"cluster", "generation_every", "cluster-generation-every", SETTING_DURATION, AT(cluster_generation_ms), 1000, DAY_MS, "how often the files of a sandbox with on_node_loss \"restore\" are sent to the store of objects while it changes them"},
	{"cluster", "objects_collect", "cluster-objects-collect", SETTING_DURATION, AT(cluster_objects_collect_ms), 0, 30 * DAY_MS, "time between two collections of what nobody needs in the store of objects; one node does it for all; 0s: not this one"},
	{"cluster", "objects_collect_most", "cluster-objects-collect-most", SETTING_COUNT, AT(cluster_objects_collect_most), 1, 100, "the most of all objects that one collection may remove, in percent; if it would be more, nothing is removed and the cluster's status says so"},
	{"pool", "min", "pool-min", SETTING_COUNT, AT(pool_min), 0, POOL_MAX, "least number of sandboxes that are made ahead"},
	{"pool", "max", "pool-max", SETTING_COUNT, AT(pool_max), 0, POOL_MAX, "most sandboxes that are made ahead, as demand asks; 0: none"},
	{"pool", "memory", "pool-memory", SETTING_SIZE, AT(pool_memory), 0, TIB, "most memory that sandboxes made ahead use together"},
	{"pool", "reserve", "pool-reserve", SETTING_COUNT, AT(pool_reserve), 0, POOL_MAX, "most sandboxes that are made ahead because projects have announced them, beside pool.max; 0: none"},
	{"pool", "reserve_memory", "pool-reserve-memory", SETTING_SIZE, AT(pool_reserve_memory), 0, TIB, "most memory that those use together (default: a quarter of the host's)"},
	{"pool", "languages", "pool-language", SETTING_LIST, AT(pool_languages), 0, 0, "interpreter that runs already in sandboxes made ahead; give it again for more"},
	{"templates", "build", "templates-build", SETTING_LIST, AT(templates_build), 0, 0, "recipe that comes with cloche (python, kernel …): built at the start if there is no shared template of that name; give it again for more"},
	{"templates", "sources", "templates-sources", SETTING_STRING, AT(templates_sources), 0, 0, "apt sources that templates are built from: a directory or file (default /etc/apt)"},
	{"templates", "npm_registry", "templates-npm-registry", SETTING_STRING, AT(templates_npm), 0, 0, "URL of the npm registry that builds use"},
	{"templates", "pip_index", "templates-pip-index", SETTING_STRING, AT(templates_pip), 0, 0, "URL of the Python package index that builds use"},
	{"templates", "names", "templates-name", SETTING_LIST, AT(templates_names), 0, 0, "host name that builds may reach though its address is private; give it again for more"},
	{"templates", "cache", "templates-cache", SETTING_SIZE, AT(templates_cache), 0, 1024 * TIB, "disk room for cached steps of builds"},
	{"templates", "packages", "templates-packages", SETTING_SIZE, AT(templates_packages), 0, 1024 * TIB, "disk room for images with the packages that creates ask for"},
	{"registries", "default", "registry-default", SETTING_STRING, AT(registries_default), 0, 0, "registry of images that are named without one, HOST[:PORT][/PATH]; PATH stands before names of one part (default: none)"},
	{"registries", "mirrors", "registry-mirror", SETTING_LIST, AT(registries_mirrors), 0, 0, "HOST[:PORT]=URL: is asked for images of that registry before the registry itself; give it again for more"},
	{"registries", "credentials", "registry-credentials", SETTING_LIST, AT(registries_credentials), 0, 0, "HOST[:PORT]=USER:SECRET: user and the name of a secret, of the project that pulls, for that registry; give it again for more"},
	{"", "engines", "engine", SETTING_LIST, AT(engines), 0, 0, "engine that sandboxes may use, jail or vm; give it again for both (default both)"},
	{"", "default_engine", "default-engine", SETTING_STRING, AT(default_engine), 0, 0, "engine of sandboxes that name none, jail or vm (default: vm where KVM was seen to run guests at full speed, else jail)"},
	{"vm", "emulate", "vm-emulate", SETTING_BOOL, AT(is_vm_emulated), 0, 0, "run vms without KVM, even where there is KVM"},
	{"vm", "boot_max", "vm-boot-max", SETTING_DURATION, AT(vm_boot_ms), 1000, DAY_MS / 24, "how long a vm may take to boot; with KVM it is emulated instead after a quarter of that time"},
	{"", "warm_modules", "warm-modules", SETTING_STRING, AT(warm_modules), 0, 0, "Python modules that interpreters have loaded at their start, such as numpy,pandas"},
	{"", "no_zygotes", "no-zygotes", SETTING_BOOL, AT(has_no_zygotes), 0, 0, "start every interpreter afresh instead of forking a warm one"},
	{"", "no_favordynmods", "no-favordynmods", SETTING_BOOL, AT(has_no_favordynmods), 0, 0, "leave the mount options of the host's cgroup tree alone: moves of processes between groups stop all forks of the host for some milliseconds then", true},
	GUEST_LIMITS(DEFAULT, )
	{"defaults", "timeout", "default-timeout", SETTING_DURATION, AT(default_timeout_ms), 0, 3650 * DAY_MS, "lifetime of a sandbox that asks for no other, 30s to 90d"},
	GUEST_LIMITS(CEILING, )
	{"ceilings", "timeout", "max-timeout", SETTING_DURATION, AT(max_timeout_ms), 1000, 3650 * DAY_MS, "the longest lifetime that a sandbox may ask for"},
	{"usage", "period", "usage-period", SETTING_DURATION, AT(usage_period_ms), 100, DAY_MS, "time between two readings of what a sandbox uses (default 10s)"},
	{"usage", "keep", "usage-keep", SETTING_DURATION, AT(usage_kept_ms), DAY_MS, 3650 * DAY_MS, "how long the usage of single sandboxes is kept (default 90d)"},
	{"history", "size", "history-size", SETTING_SIZE, AT(history_bytes), MIB, TIB, "how many bytes of history are kept; past that the project that has most loses the oldest of its sandboxes"},
	{"history", "runs", "history-runs", SETTING_COUNT64, AT(history_runs), 100, 10000000, "how many runs of sandboxes are remembered, to tell what ran at a moment"},
	{"prices", "currency", "currency", SETTING_STRING, AT(currency), 0, 0, "currency of all prices, such as EUR"},
	{"prices", "cpu_hour", "price-cpu-hour", SETTING_MONEY, AT(prices.cpu_hour), 0, UINT64_MAX, "price of an hour of CPU time that was used, such as 0.05"},
	{"prices", "memory_gib_hour", "price-memory-gib-hour", SETTING_MONEY, AT(prices.memory_gib_hour), 0, UINT64_MAX, "price of an hour of a GiB of the memory limit"},
	{"prices", "disk_gib_month", "price-disk-gib-month", SETTING_MONEY, AT(prices.disk_gib_month), 0, UINT64_MAX, "price of a month of a GiB that files take"},
	{"prices", "network_gib", "price-network-gib", SETTING_MONEY, AT(prices.network_gib), 0, UINT64_MAX, "price of a GiB sent or received"},
	{"prices", "create", "price-create", SETTING_MONEY, AT(prices.create), 0, UINT64_MAX, "price of creating a sandbox"},
	{"quota", "sandboxes", "quota-sandboxes", SETTING_COUNT64, AT(quota_sandboxes), 0, 1000000, "most sandboxes at once of a project that has no quota of its own"},
	{"quota", "vcpus", "quota-vcpus", SETTING_CPUS, AT(quota_cpu_milli), 10, 1024000, "most CPUs of such a project's sandboxes together"},
	{"quota", "memory", "quota-memory", SETTING_SIZE, AT(quota_memory_bytes), 0, 1024 * TIB, "most memory of such a project's sandboxes together"},
	{"quota", "disk", "quota-disk", SETTING_SIZE, AT(quota_disk_bytes), 0, 1024 * TIB, "most disk of such a project's sandboxes together"},
	{"quota", "disk_share", "quota-disk-share", SETTING_COUNT, AT(quota_disk_share), 1, 100, "percent of the sandboxes' disk room that one project may fill; 100: all of it"},
	{"quota", "creates_per_minute", "quota-creates-per-minute", SETTING_COUNT64, AT(quota_creates), 0, 1000000, "most sandboxes that such a project may create in a minute"},
	{"quota", "budget", "quota-budget", SETTING_MONEY, AT(quota_budget), 0, UINT64_MAX - 1, "most money that such a project may spend in a month"},
	{NULL, NULL, "rm", SETTING_BOOL, AT(is_rm), 0, 0, "delete all sandboxes when the daemon stops", true},
	{NULL, NULL, "sweep", SETTING_BOOL, AT(is_sweep), 0, 0, "delete what an earlier daemon left running, and exit"},
	{NULL, NULL, "print-config", SETTING_BOOL, AT(wants_file), 0, 0, "print all settings as a settings file, and exit"},
	{NULL, NULL, "ready-fd", SETTING_COUNT, AT(ready_fd), 0, 1048576, "file descriptor that gets \"ready\" and a newline once the daemon serves"},
	{NULL, NULL, "life-fd", SETTING_COUNT, AT(life_fd), 0, 1048576, "file descriptor of a pipe: the daemon stops when its other end is closed"},
	{NULL, NULL, "help", SETTING_BOOL, AT(wants_help), 0, 0, "this text"},
};
/* clang-format on */

const size_t n_settings = ARRAY_SIZE(settings);
static_assert(ARRAY_SIZE(settings) <= SETTINGS_MAX, "more settings than SETTINGS_MAX");

static void list_free(char **list)
{
	for (char **p = list; p && *p; p++)
		free(*p);
	free(list);
}

static void *place(struct config *c, const struct setting *key)
{
	return (char *)c + key->offset;
}

static const char *const level_names[] = {"debug", "info", "warn", "error"};

static int parse_level(const char *text, uint64_t *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(level_names); i++) {
		if (strcmp(text, level_names[i]) != 0)
			continue;
		*ret = i;
		return 0;
	}
	return -EINVAL;
}

static int parse_number(const struct setting *key, const char *text, uint64_t *ret)
{
	switch (key->kind) {
	case SETTING_SIZE:
		return quantity_parse_size(text, ret);
	case SETTING_DURATION:
		return quantity_parse_duration_ms(text, ret);
	case SETTING_CPUS:
		return quantity_parse_cpus_milli(text, ret);
	case SETTING_LEVEL:
		return parse_level(text, ret);
	case SETTING_MONEY:
		return decimal_parse(text, ret);
	case SETTING_COUNT:
	case SETTING_COUNT64:
		return parse_u64(text, UINT64_MAX, ret);
	case SETTING_STRING:
	case SETTING_LIST:
	case SETTING_BOOL:
		break;
	}
	return -EINVAL;
}

const char *setting_example(enum setting_kind kind)
{
	switch (kind) {
	case SETTING_STRING:
		return "a string that is not empty";
	case SETTING_LIST:
		return "an array of strings";
	case SETTING_BOOL:
		return "true or false";
	case SETTING_COUNT:
	case SETTING_COUNT64:
		return "a whole number";
	case SETTING_SIZE:
		return "a size such as \"512MiB\"";
	case SETTING_DURATION:
		return "a duration such as \"30s\" (ms, s, m, h, d)";
	case SETTING_CPUS:
		return "a number of CPUs such as 1.5";
	case SETTING_LEVEL:
		return "debug, info, warn or error";
	case SETTING_MONEY:
		return "an amount such as \"0.05\", with up to nine decimals";
	}
	return "";
}

static int set_number(struct config *c, const struct setting *key, const char *label,
                      const char *text, struct err *err)
{
	uint64_t value;
	int r = parse_number(key, text, &value);

	if (r == -EINVAL)
		return err_field(err, label, "'%s' is not %s", text, setting_example(key->kind));
	if (key->kind == SETTING_LEVEL) {
		*(enum log_level *)place(c, key) = (enum log_level)value;
		return 0;
	}
	if (r < 0 || value < key->min || value > key->max)
		return err_field(err, label, "'%s' is not between %" PRIu64 " and %" PRIu64, text,
		                 key->min, key->max);
	if (key->kind == SETTING_COUNT || key->kind == SETTING_CPUS)
		*(uint32_t *)place(c, key) = (uint32_t)value;
	else
		*(uint64_t *)place(c, key) = value;
	return 0;
}

int setting_set_text(struct config *c, const struct setting *key, const char *label,
                     const char *text, struct err *err)
{
	char **at = place(c, key);

	if (key->kind != SETTING_STRING)
		return set_number(c, key, label, text, err);
	if (text[0] == '\0')
		return err_field(err, label, "must not be empty");
	free(*at);
	*at = xstrdup(text);
	return 0;
}

int setting_set_bool(struct config *c, const struct setting *key, const char *label,
                     const char *text, struct err *err)
{
	bool value = strcmp(text, "true") == 0;

	if (!value && strcmp(text, "false") != 0)
		return err_field(err, label, "'%s' is not %s", text, setting_example(SETTING_BOOL));
	*(bool *)place(c, key) = value;
	return 0;
}

void setting_set_list(struct config *c, const struct setting *key, const char *const *items,
                      size_t n)
{
	char ***at = place(c, key);

	list_free(*at);
	*at = xnew0n(char *, n + 1);
	for (size_t i = 0; i < n; i++)
		(*at)[i] = xstrdup(items[i]);
}

void setting_append(struct config *c, const struct setting *key, const char *item)
{
	char ***at = place(c, key);
	size_t n = 0;

	while ((*at)[n])
		n++;
	*at = xrealloc(*at, (n + 2) * sizeof(**at));
	(*at)[n] = xstrdup(item);
	(*at)[n + 1] = NULL;
}

const struct setting *setting_find(const char *section, const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(settings); i++)
		if (settings[i].section && strcmp(settings[i].section, section) == 0 &&
		    strcmp(settings[i].name, name) == 0)
			return &settings[i];
	return NULL;
}

/* Strings, sizes, durations and levels are quoted, numbers need not be, booleans are not. */
bool setting_fits(enum setting_kind kind, enum toml_kind given)
{
	switch (kind) {
	case SETTING_LIST:
		return given == TOML_ARRAY;
	case SETTING_BOOL:
	case SETTING_COUNT:
	case SETTING_COUNT64:
		return given == TOML_BARE;
	case SETTING_STRING:
	case SETTING_LEVEL:
	case SETTING_DURATION:
		return given == TOML_STRING;
	case SETTING_SIZE:
	case SETTING_CPUS:
	case SETTING_MONEY:
		return given != TOML_ARRAY;
	}
	return false;
}

void setting_clear(struct config *c, const struct setting *key)
{
	if (key->kind == SETTING_STRING)
		free(*(char **)place(c, key));
	else if (key->kind == SETTING_LIST)
		list_free(*(char ***)place(c, key));
}

static bool list_is_equal(char *const *a, char *const *b)
{
	while (a && b && *a && *b && strcmp(*a, *b) == 0) {
		a++;
		b++;
	}
	return (!a || !*a) && (!b || !*b);
}

static bool text_is_equal(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

bool setting_is_equal(struct config *a, struct config *b, const struct setting *key)
{
	assert(key->is_fixed);
	if (key->kind == SETTING_LIST)
		return list_is_equal(*(char ***)place(a, key), *(char ***)place(b, key));
	if (key->kind == SETTING_STRING)
		return text_is_equal(*(char **)place(a, key), *(char **)place(b, key));
	return *(bool *)place(a, key) == *(bool *)place(b, key);
}

void setting_swap(struct config *a, struct config *b, const struct setting *key)
{
	assert(key->is_fixed);
	SWAP(struct origin, a->states[key - settings].origin, b->states[key - settings].origin);
	if (key->kind == SETTING_LIST)
		SWAP(char **, *(char ***)place(a, key), *(char ***)place(b, key));
	else if (key->kind == SETTING_STRING)
		SWAP(char *, *(char **)place(a, key), *(char **)place(b, key));
	else
		SWAP(bool, *(bool *)place(a, key), *(bool *)place(b, key));
}
