// SPDX-License-Identifier: Apache-2.0
#include "daemon/config.h"

#include "base/decimal.h"
#include "base/fd.h"
#include "base/parse.h"
#include "broker/broker.h"
#include "daemon/toml.h"
#include "daemon/units.h"

#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>

#define FILE_BYTES_MAX   65536
#define POOL_MAX         1024
#define WARM_MODULES_MAX 1000 /* less than ZYGOTE_WARM_MAX */

enum kind {
	KIND_STRING,   /* char * */
	KIND_LIST,     /* char **, NULL-terminated */
	KIND_BOOL,     /* bool */
	KIND_COUNT,    /* uint32_t */
	KIND_COUNT64,  /* uint64_t */
	KIND_SIZE,     /* uint64_t bytes: "512MiB" */
	KIND_DURATION, /* uint64_t ms: "30s" */
	KIND_CPUS,     /* uint32_t thousandths: 1.5 */
	KIND_LEVEL,    /* enum log_level */
	KIND_MONEY,    /* uint64_t nano: "0.05" */
};

struct key {
	const char *section; /* of the file; NULL: only an option */
	const char *name;
	const char *option;
	enum kind kind;
	size_t offset;
	uint64_t min, max;
	const char *help;
};

#define AT(member) offsetof(struct config, member)

/* clang-format off */
static const struct key keys[] = {
	{NULL, NULL, "config", KIND_STRING, AT(file), 0, 0, "settings file (default " CONFIG_FILE ")"},
	{"", "listen", "listen", KIND_LIST, AT(listen), 0, 0, "ADDRESS:PORT, again for more; none: only the unix socket"},
	{"", "socket", "socket", KIND_STRING, AT(socket), 0, 0, "unix socket (default RUN/cloche.sock), or none"},
	{"", "data", "data", KIND_STRING, AT(data_dir), 0, 0, "where state and disks live (default /var/lib/cloche)"},
	{"", "run", "run", KIND_STRING, AT(run_dir), 0, 0, "sockets and records of what runs (default /run/cloche)"},
	{"", "hosts", "host", KIND_LIST, AT(hosts), 0, 0, "Host name to answer to, again for more; *: any"},
	{"", "tls_cert", "tls-cert", KIND_STRING, AT(tls_cert), 0, 0, "PEM chain: serve HTTPS on the TCP listeners"},
	{"", "tls_key", "tls-key", KIND_STRING, AT(tls_key), 0, 0, "its private key"},
	{"", "user", "user", KIND_STRING, AT(user), 0, 0, "user of the gateway process (default cloche)"},
	{"", "agent", "agent", KIND_STRING, AT(agent), 0, 0, "the agent's binary"},
	{"", "log_level", "log-level", KIND_LEVEL, AT(log_level), 0, 0, "debug, info, warn or error"},
	{"", "sandboxes_max", "sandboxes-max", KIND_COUNT, AT(sandboxes_max), 1, BROKER_SLOTS, "sandboxes at once"},
	{"", "persistent_max", "persistent-max", KIND_COUNT, AT(persistent_max), 0, 1000000, "persistent sandboxes, running or not"},
	{"", "ended_max", "ended-max", KIND_COUNT, AT(ended_max), 1, 1000000, "sandboxes that have ended and are remembered"},
	{"", "ended_age", "ended-age", KIND_DURATION, AT(ended_age_ms), 1000, 3650 * DAY_MS, "and for how long"},
	{"", "ended_output", "ended-output", KIND_SIZE, AT(ended_bytes), 0, TIB, "and with how much output of them all"},
	{"", "execs_max", "execs-max", KIND_COUNT, AT(execs_max), 1, 100000, "execs kept per sandbox"},
	{"", "spool", "spool", KIND_SIZE, AT(spool_bytes), 64 * KIB, TIB, "output kept per exec"},
	{"", "plain_storage", "plain-storage", KIND_BOOL, AT(is_plain_storage), 0, 0, "plain directories instead of btrfs: no disk limit"},
	{"", "metrics_open", "metrics-open", KIND_BOOL, AT(is_metrics_open), 0, 0, "serve /metrics to anybody, without a key"},
	{"", "webhooks_allow", "webhooks-allow", KIND_LIST, AT(webhooks_allow), 0, 0, "range that webhooks may be sent to though it is not public, again for more"},
	{"preview", "domain", "preview-domain", KIND_STRING, AT(preview_domain), 0, 0, "serve ports of sandboxes as PORT-ID.DOMAIN"},
	{"preview", "url", "preview-url", KIND_STRING, AT(preview_url), 0, 0, "how clients reach this daemon, as \"https://sandboxes.example.com\""},
	{"events", "age", "events-age", KIND_DURATION, AT(events_age_ms), 1000, 3650 * DAY_MS, "how long events are kept"},
	{"events", "size", "events-size", KIND_SIZE, AT(events_bytes), 64 * KIB, TIB, "and how many bytes of them"},
	{"events", "count", "events-count", KIND_COUNT64, AT(events_count), 100, UINT32_MAX, "and how many"},
	{"events", "rate", "events-rate", KIND_COUNT, AT(events_rate), 1, 100000, "events a second that a sandbox may cause for long"},
	{"pool", "min", "pool-min", KIND_COUNT, AT(pool_min), 0, POOL_MAX, "sandboxes kept ready before they are asked for, at least"},
	{"pool", "max", "pool-max", KIND_COUNT, AT(pool_max), 0, POOL_MAX, "and at most, as demand asks; 0: none"},
	{"pool", "memory", "pool-memory", KIND_SIZE, AT(pool_memory), 0, TIB, "that they use at most, together"},
	{"pool", "languages", "pool-language", KIND_LIST, AT(pool_languages), 0, 0, "interpreter that they have running, again for more"},
	{"", "warm_modules", "warm-modules", KIND_STRING, AT(warm_modules), 0, 0, "Python modules that interpreters start with, as \"numpy,pandas\""},
	{"", "no_zygotes", "no-zygotes", KIND_BOOL, AT(has_no_zygotes), 0, 0, "start every interpreter afresh instead of forking a warm one"},
	{"defaults", "vcpus", "default-vcpus", KIND_CPUS, AT(default_limits.cpu_milli), 10, 1024000, "of a sandbox that asks for no other"},
	{"defaults", "memory", "default-memory", KIND_SIZE, AT(default_limits.memory_bytes), 8 * MIB, 64 * TIB, NULL},
	{"defaults", "disk", "default-disk", KIND_SIZE, AT(default_limits.disk_bytes), MIB, 1024 * TIB, NULL},
	{"defaults", "inodes", "default-inodes", KIND_COUNT64, AT(default_limits.inodes), 64, UINT32_MAX, NULL},
	{"defaults", "pids", "default-pids", KIND_COUNT, AT(default_limits.pids), 2, 4194304, NULL},
	{"defaults", "open_files", "default-open-files", KIND_COUNT, AT(default_limits.nofile), 16, 1048576, NULL},
	{"defaults", "timeout", "default-timeout", KIND_DURATION, AT(default_timeout_ms), 0, 3650 * DAY_MS, "lifetime, \"30s\" to \"90d\""},
	{"ceilings", "vcpus", "max-vcpus", KIND_CPUS, AT(max_limits.cpu_milli), 10, 1024000, "most that a sandbox may ask for"},
	{"ceilings", "memory", "max-memory", KIND_SIZE, AT(max_limits.memory_bytes), 8 * MIB, 64 * TIB, NULL},
	{"ceilings", "disk", "max-disk", KIND_SIZE, AT(max_limits.disk_bytes), MIB, 1024 * TIB, NULL},
	{"ceilings", "inodes", "max-inodes", KIND_COUNT64, AT(max_limits.inodes), 64, UINT32_MAX, NULL},
	{"ceilings", "pids", "max-pids", KIND_COUNT, AT(max_limits.pids), 2, 4194304, NULL},
	{"ceilings", "open_files", "max-open-files", KIND_COUNT, AT(max_limits.nofile), 16, 1048576, NULL},
	{"ceilings", "timeout", "max-timeout", KIND_DURATION, AT(max_timeout_ms), 1000, 3650 * DAY_MS, NULL},
	{"usage", "period", "usage-period", KIND_DURATION, AT(usage_period_ms), 100, DAY_MS, "between two readings of what a sandbox uses (default 10s)"},
	{"usage", "keep", "usage-keep", KIND_DURATION, AT(usage_kept_ms), DAY_MS, 3650 * DAY_MS, "how long usage of single sandboxes is kept (default 90d)"},
	{"prices", "currency", "currency", KIND_STRING, AT(currency), 0, 0, "of all prices, such as EUR"},
	{"prices", "cpu_hour", "price-cpu-hour", KIND_MONEY, AT(prices.cpu_hour), 0, UINT64_MAX, "such as 0.05; of CPU time that was used"},
	{"prices", "memory_gib_hour", "price-memory-gib-hour", KIND_MONEY, AT(prices.memory_gib_hour), 0, UINT64_MAX, "of the memory limit"},
	{"prices", "disk_gib_month", "price-disk-gib-month", KIND_MONEY, AT(prices.disk_gib_month), 0, UINT64_MAX, "of what the files take"},
	{"prices", "network_gib", "price-network-gib", KIND_MONEY, AT(prices.network_gib), 0, UINT64_MAX, "in either direction"},
	{"prices", "create", "price-create", KIND_MONEY, AT(prices.create), 0, UINT64_MAX, "of each sandbox"},
	{"quota", "sandboxes", "quota-sandboxes", KIND_COUNT64, AT(quota_sandboxes), 0, 1000000, "of a project without its own: at once"},
	{"quota", "vcpus", "quota-vcpus", KIND_CPUS, AT(quota_cpu_milli), 10, 1024000, "all its sandboxes together"},
	{"quota", "memory", "quota-memory", KIND_SIZE, AT(quota_memory_bytes), 0, 1024 * TIB, NULL},
	{"quota", "disk", "quota-disk", KIND_SIZE, AT(quota_disk_bytes), 0, 1024 * TIB, NULL},
	{"quota", "creates_per_minute", "quota-creates-per-minute", KIND_COUNT64, AT(quota_creates), 0, 1000000, NULL},
	{"quota", "budget", "quota-budget", KIND_MONEY, AT(quota_budget), 0, UINT64_MAX - 1, "money that it may spend in a month"},
	{NULL, NULL, "rm", KIND_BOOL, AT(is_rm), 0, 0, "delete all sandboxes when the daemon stops"},
	{NULL, NULL, "sweep", KIND_BOOL, AT(is_sweep), 0, 0, "delete what an earlier daemon left running, and exit"},
	{NULL, NULL, "ready-fd", KIND_COUNT, AT(ready_fd), 0, 1048576, "fd that gets \"ready\" and a newline"},
	{NULL, NULL, "help", KIND_BOOL, AT(wants_help), 0, 0, "this text"},
};
/* clang-format on */

static uint32_t host_cpus_milli(void)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);

	return n < 1 ? 1000 : (uint32_t)MIN(n, 1024) * 1000;
}

static uint64_t host_memory_bytes(void)
{
	struct sysinfo info;

	return sysinfo(&info) < 0 ? GIB : (uint64_t)info.totalram * info.mem_unit;
}

static uint32_t host_open_files(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_max == RLIM_INFINITY)
		return 1048576;
	return (uint32_t)MIN(limit.rlim_max, 1048576);
}

static char **list_of_one(const char *text)
{
	char **list = xnew0n(char *, 2);

	list[0] = xstrdup(text);
	return list;
}

void config_init(struct config *c)
{
	*c = (struct config){
		.listen = list_of_one("127.0.0.1:7070"),
		.data_dir = xstrdup("/var/lib/cloche"),
		.run_dir = xstrdup("/run/cloche"),
		.user = xstrdup("cloche"),
		.warm_modules = xstrdup(""),
		.log_level = LOG_INFO,
		.max_limits = {.memory_bytes = host_memory_bytes(),
	                       .disk_bytes = 64 * GIB,
	                       .inodes = 10000000,
	                       .cpu_milli = host_cpus_milli(),
	                       .pids = 32768,
	                       .nofile = host_open_files()},
		.default_timeout_ms = DAY_MS / 24,
		.max_timeout_ms = 30 * DAY_MS,
		.spool_bytes = 16 * MIB,
		.sandboxes_max = 1000,
		.persistent_max = 1000,
		.ended_max = 1000,
		.ended_age_ms = DAY_MS,
		.ended_bytes = GIB,
		.execs_max = 1000,
		.usage_period_ms = 10000,
		.usage_kept_ms = 90 * DAY_MS,
		.currency = xstrdup("EUR"),
		.events_age_ms = 30 * DAY_MS,
		.events_bytes = 256 * MIB,
		.events_count = 1000000,
		.events_rate = 50,
		.pool_min = 2,
		.pool_max = 16,
		.pool_memory = 512 * MIB,
		.pool_languages = list_of_one("python"),
		.quota_sandboxes = UINT64_MAX,
		.quota_memory_bytes = UINT64_MAX,
		.quota_disk_bytes = UINT64_MAX,
		.quota_creates = UINT64_MAX,
		.quota_budget = UINT64_MAX,
		.ready_fd = -1,
	};
	c->default_limits = (struct guest_limits){
		.memory_bytes = MIN(512 * MIB, c->max_limits.memory_bytes),
		.disk_bytes = 2 * GIB,
		.inodes = 200000,
		.cpu_milli = MIN(1000, c->max_limits.cpu_milli),
		.pids = 256,
		.nofile = MIN(4096, c->max_limits.nofile),
	};
}

static void list_free(char **list)
{
	for (char **p = list; p && *p; p++)
		free(*p);
	free(list);
}

static void *place(struct config *c, const struct key *key)
{
	return (char *)c + key->offset;
}

void config_done(struct config *c)
{
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		if (keys[i].kind == KIND_STRING)
			free(*(char **)place(c, &keys[i]));
		else if (keys[i].kind == KIND_LIST)
			list_free(*(char ***)place(c, &keys[i]));
	}
	*c = (struct config){.ready_fd = -1};
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

static int parse_number(const struct key *key, const char *text, uint64_t *ret)
{
	switch (key->kind) {
	case KIND_SIZE:
		return units_parse_size(text, ret);
	case KIND_DURATION:
		return units_parse_duration_ms(text, ret);
	case KIND_CPUS:
		return units_parse_cpus_milli(text, ret);
	case KIND_LEVEL:
		return parse_level(text, ret);
	case KIND_MONEY:
		return decimal_parse(text, ret);
	case KIND_COUNT:
	case KIND_COUNT64:
		return parse_u64(text, UINT64_MAX, ret);
	case KIND_STRING:
	case KIND_LIST:
	case KIND_BOOL:
		break;
	}
	return -EINVAL;
}

static const char *kind_example(enum kind kind)
{
	switch (kind) {
	case KIND_STRING:
		return "a string that is not empty";
	case KIND_LIST:
		return "an array of strings";
	case KIND_BOOL:
		return "true or false";
	case KIND_COUNT:
	case KIND_COUNT64:
		return "a whole number";
	case KIND_SIZE:
		return "a size such as \"512MiB\"";
	case KIND_DURATION:
		return "a duration such as \"30s\" (ms, s, m, h, d)";
	case KIND_CPUS:
		return "a number of CPUs such as 1.5";
	case KIND_LEVEL:
		return "debug, info, warn or error";
	case KIND_MONEY:
		return "an amount such as \"0.05\", with up to nine decimals";
	}
	return "";
}

static int set_number(struct config *c, const struct key *key, const char *label, const char *text,
                      struct err *err)
{
	uint64_t value;
	int r = parse_number(key, text, &value);

	if (r == -EINVAL)
		return err_field(err, label, "'%s' is not %s", text, kind_example(key->kind));
	if (key->kind == KIND_LEVEL) {
		*(enum log_level *)place(c, key) = (enum log_level)value;
		return 0;
	}
	if (r < 0 || value < key->min || value > key->max)
		return err_field(err, label, "'%s' is not between %" PRIu64 " and %" PRIu64, text,
		                 key->min, key->max);
	if (key->kind == KIND_COUNT || key->kind == KIND_CPUS)
		*(uint32_t *)place(c, key) = (uint32_t)value;
	else
		*(uint64_t *)place(c, key) = value;
	return 0;
}

static int set_text(struct config *c, const struct key *key, const char *label, const char *text,
                    struct err *err)
{
	char **at = place(c, key);

	if (key->kind != KIND_STRING)
		return set_number(c, key, label, text, err);
	if (text[0] == '\0')
		return err_field(err, label, "must not be empty");
	free(*at);
	*at = xstrdup(text);
	return 0;
}

static int set_bool(struct config *c, const struct key *key, const char *label, const char *text,
                    struct err *err)
{
	bool value = strcmp(text, "true") == 0;

	if (!value && strcmp(text, "false") != 0)
		return err_field(err, label, "'%s' is not %s", text, kind_example(KIND_BOOL));
	*(bool *)place(c, key) = value;
	return 0;
}

static void set_list(struct config *c, const struct key *key, const char *const *items, size_t n)
{
	char ***at = place(c, key);

	list_free(*at);
	*at = xnew0n(char *, n + 1);
	for (size_t i = 0; i < n; i++)
		(*at)[i] = xstrdup(items[i]);
}

static void append_list(struct config *c, const struct key *key, const char *item)
{
	char ***at = place(c, key);
	size_t n = 0;

	while ((*at)[n])
		n++;
	*at = xrealloc(*at, (n + 2) * sizeof(**at));
	(*at)[n] = xstrdup(item);
	(*at)[n + 1] = NULL;
}

struct reading { /* one file */
	struct config *config;
	bool is_given[ARRAY_SIZE(keys)];
};

static const struct key *find_key(const char *section, const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (keys[i].section && strcmp(keys[i].section, section) == 0 &&
		    strcmp(keys[i].name, name) == 0)
			return &keys[i];
	return NULL;
}

/* Strings, sizes, durations and levels are quoted, numbers need not be, booleans are not. */
static bool kind_fits(enum kind kind, enum toml_kind given)
{
	switch (kind) {
	case KIND_LIST:
		return given == TOML_ARRAY;
	case KIND_BOOL:
	case KIND_COUNT:
	case KIND_COUNT64:
		return given == TOML_BARE;
	case KIND_STRING:
	case KIND_LEVEL:
	case KIND_DURATION:
		return given == TOML_STRING;
	case KIND_SIZE:
	case KIND_CPUS:
	case KIND_MONEY:
		return given != TOML_ARRAY;
	}
	return false;
}

static int on_entry(const struct toml_entry *e, void *arg, struct err *err)
{
	struct reading *reading = arg;
	const struct key *key = find_key(e->section, e->key);
	char label[64];

	(void)snprintf(label, sizeof(label), "%s%s%s", e->section, e->section[0] ? "." : "",
	               e->key);
	if (!key)
		return err_field(err, label, "no such setting");
	if (reading->is_given[key - keys])
		return err_field(err, label, "given twice");
	reading->is_given[key - keys] = true;
	if (!kind_fits(key->kind, e->kind))
		return err_field(err, label, "must be %s", kind_example(key->kind));
	if (key->kind == KIND_LIST) {
		set_list(reading->config, key, e->items, e->n_items);
		return 0;
	}
	if (key->kind == KIND_BOOL)
		return set_bool(reading->config, key, label, e->text, err);
	return set_text(reading->config, key, label, e->text, err);
}

int config_parse(struct config *c, const char *name, const char *text, size_t len, struct err *err)
{
	struct reading reading = {.config = c};

	return toml_parse(name, text, len, on_entry, &reading, err);
}

static int read_config_file(struct config *c, struct err *err)
{
	const char *path = c->file ? c->file : CONFIG_FILE;
	auto_free char *text = xcalloc(1, FILE_BYTES_MAX);
	int len = fd_read_file(AT_FDCWD, path, text, FILE_BYTES_MAX);

	if (len == -ENOENT && !c->file)
		return 0;
	if (len < 0)
		return err_set(err, ERR_INVALID_FIELD, -len, "cannot read '%s'", path);
	if (len >= FILE_BYTES_MAX - 2)
		return err_set(err, ERR_INVALID_FIELD, 0, "'%s' has more than 64 KiB", path);
	return config_parse(c, path, text, (size_t)len, err);
}

/* The key whose option came up, or NULL at the end of the command line. */
static int next_option(int argc, char **argv, const struct key **ret, struct err *err)
{
	struct option options[ARRAY_SIZE(keys) + 1] = {0};
	int index;
	int found;

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		options[i] = (struct option){
			.name = keys[i].option,
			.has_arg = keys[i].kind == KIND_BOOL ? no_argument : required_argument,
		};
	opterr = 0;
	found = getopt_long(argc, argv, ":", options, &index);
	if (found == ':')
		return err_set(err, ERR_INVALID_FIELD, 0, "'%s' needs a value", argv[optind - 1]);
	if (found == '?')
		return err_set(err, ERR_INVALID_FIELD, 0, "no such option: '%s'", argv[optind - 1]);
	*ret = found < 0 ? NULL : &keys[index];
	return 0;
}

static int apply_option(struct config *c, const struct key *key, bool is_again, struct err *err)
{
	const char *const value = optarg;
	char label[64];

	(void)snprintf(label, sizeof(label), "--%s", key->option);
	switch (key->kind) {
	case KIND_BOOL:
		*(bool *)place(c, key) = true;
		return 0;
	case KIND_LIST:
		if (is_again)
			append_list(c, key, value);
		else
			set_list(c, key, &value, 1);
		return 0;
	case KIND_STRING:
	case KIND_COUNT:
	case KIND_COUNT64:
	case KIND_SIZE:
	case KIND_DURATION:
	case KIND_CPUS:
	case KIND_LEVEL:
	case KIND_MONEY:
		break;
	}
	return set_text(c, key, label, value, err);
}

/* Goes over the command line twice: for --config alone, then, over the file's, for all others. */
static int read_options(struct config *c, int argc, char **argv, bool is_for_file, struct err *err)
{
	bool is_given[ARRAY_SIZE(keys)] = {0};
	const struct key *key;
	int r;

	optind = 0; /* glibc: start afresh */
	while ((r = next_option(argc, argv, &key, err)) == 0 && key) {
		bool is_file = key->offset == AT(file) && key->kind == KIND_STRING;

		if (is_file == is_for_file)
			r = apply_option(c, key, is_given[key - keys], err);
		if (r < 0)
			break;
		is_given[key - keys] = true;
	}
	if (r < 0)
		return r;
	if (optind < argc)
		return err_set(err, ERR_INVALID_FIELD, 0, "'%s' is not an option", argv[optind]);
	return 0;
}

static int check_ceilings(const struct config *c, struct err *err)
{
	const struct guest_limits *d = &c->default_limits, *m = &c->max_limits;
	const struct {
		const char *name;
		uint64_t value, max;
	} rows[] = {
		{"vcpus", d->cpu_milli, m->cpu_milli},
		{"memory", d->memory_bytes, m->memory_bytes},
		{"disk", d->disk_bytes, m->disk_bytes},
		{"inodes", d->inodes, m->inodes},
		{"pids", d->pids, m->pids},
		{"open_files", d->nofile, m->nofile},
		{"timeout", c->default_timeout_ms, c->max_timeout_ms},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].value > rows[i].max)
			return err_field(err, rows[i].name, "the default is above the ceiling");
	return 0;
}

static int make_absolute(char **path, struct err *err)
{
	auto_free char *cwd = NULL;
	char *whole;

	if (!*path || (*path)[0] == '/' || strcmp(*path, "none") == 0)
		return 0;
	cwd = getcwd(NULL, 0);
	if (!cwd)
		return err_set(err, ERR_INTERNAL, errno, "cannot tell the working directory");
	whole = xasprintf("%s/%s", cwd, *path);
	free(*path);
	*path = whole;
	return 0;
}

/* They come into a broker's message of fixed size, and from there into an environment. */
static int check_warm_modules(const char *names, struct err *err)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789_.,";

	if (names[strspn(names, letters)] != '\0')
		return err_field(err, "warm_modules",
		                 "must be names parted by commas, as "
		                 "\"numpy,pandas\"");
	if (strlen(names) > WARM_MODULES_MAX)
		return err_field(err, "warm_modules", "may have up to %d letters",
		                 WARM_MODULES_MAX);
	return 0;
}

static int finish(struct config *c, struct err *err)
{
	char **const paths[] = {&c->data_dir, &c->run_dir, &c->socket,
	                        &c->tls_cert, &c->tls_key, &c->agent};
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		r = make_absolute(paths[i], err);
		if (r < 0)
			return r;
	}
	if (!c->socket)
		c->socket = xasprintf("%s/cloche.sock", c->run_dir);
	if (!c->tls_cert != !c->tls_key)
		return err_field(err, c->tls_cert ? "tls_key" : "tls_cert",
		                 "certificate and key go together");
	if (strlen(c->currency) > CURRENCY_MAX)
		return err_field(err, "currency", "has more than %d letters", CURRENCY_MAX);
	r = check_warm_modules(c->warm_modules, err);
	return r < 0 ? r : check_ceilings(c, err);
}

int config_load(struct config *c, int argc, char **argv, struct err *err)
{
	int r = read_options(c, argc, argv, /* is_for_file= */ true, err);

	if (r == 0)
		r = read_config_file(c, err);
	if (r == 0)
		r = read_options(c, argc, argv, /* is_for_file= */ false, err);
	return r < 0 ? r : finish(c, err);
}

void config_print_options(FILE *out)
{
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		(void)fprintf(out, "  --%-20s %s\n", keys[i].option,
		              keys[i].help ? keys[i].help : "");
}
