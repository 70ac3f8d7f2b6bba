// SPDX-License-Identifier: Apache-2.0
/*
 * Where settings come from: this host gives the defaults, a file overrides them, and the command
 * line overrides the file. setting.c has the table of settings.
 */
#include "daemon/config/config.h"

#include "base/fd.h"
#include "base/text/nearest.h"
#include "base/units.h"
#include "broker/broker.h"
#include "daemon/config/quantity.h"
#include "daemon/config/setting.h"

#include <fcntl.h>
#include <getopt.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>

#define FILE_BYTES_MAX 65536

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

static void init_limits(struct config *c)
{
	const struct guest_limits host = {.memory_bytes = host_memory_bytes(),
	                                  .cpu_milli = host_cpus_milli(),
	                                  .open_files = host_open_files()};

	for (size_t i = 0; i < GUEST_LIMITS_COUNT; i++) {
		const struct limit *l = &limit_table[i];
		uint64_t has = limit_get(l, &host); /* 0: as much as one likes */
		uint64_t ceiling = has ? MIN(has, l->ceiling) : l->ceiling;

		limit_set(l, &c->max_limits, ceiling);
		limit_set(l, &c->default_limits, MIN(l->usual, ceiling));
	}
}

void config_init(struct config *c)
{
	*c = (struct config){
		.listen = list_of_one("127.0.0.1:7070"),
		.data_dir = xstrdup("/var/lib/cloche"),
		.run_dir = xstrdup("/run/cloche"),
		.user = xstrdup("cloche"),
		.warm_modules = xstrdup(""),
		.templates_sources = xstrdup("/etc/apt"),
		.templates_cache = 8 * GIB,
		.templates_packages = 8 * GIB,
		.log_level = LOG_INFO,
		.vm_boot_ms = 110 * 1000, /* emulated on a busy host */
		.default_timeout_ms = DAY_MS / 24,
		.max_timeout_ms = 30 * DAY_MS,
		.login_name = xstrdup("single sign-on"),
		.login_roles_claim = xstrdup("groups"),
		.login_session_ms = DAY_MS / 2,
		.login_check_ms = 300 * 1000,
		.spool_bytes = 16 * MIB,
		.results_sandbox = 64 * MIB,
		.results_project = GIB,
		.output_sandbox = 256 * MIB,
		.output_project = 2 * GIB,
		.output_host = 8 * GIB,
		.request_bytes = TIB,
		.sandboxes_max = 1000,
		.uid_base = BROKER_UID_BASE,
		.persistent_max = 1000,
		.ended_max = 1000,
		.ended_age_ms = DAY_MS,
		.watchdog_ms = 30000,
		.compat_wait_ms = 30000,
		.ended_bytes = GIB,
		.execs_max = 1000,
		.network_connections = 256,
		.usage_period_ms = 10000,
		.identity_token_ms = 600000,
		.identity_rotate_ms = 30 * DAY_MS,
		.usage_kept_ms = 90 * DAY_MS,
		.history_bytes = 64 * MIB,
		.history_runs = 100000,
		.currency = xstrdup("EUR"),
		.audit_s3_region = xstrdup("us-east-1"),
		.audit_s3_interval_ms = 60000,
		.events_age_ms = 30 * DAY_MS,
		.cluster_certificate_ms = 397 * DAY_MS,
		.cluster_objects_collect_ms = DAY_MS / 4,
		.cluster_generation_ms = 60000,
		.cluster_objects_collect_most = 50,
		.events_bytes = 256 * MIB,
		.events_count = 1000000,
		.events_rate = 50,
		.telemetry_interval_ms = 10000,
		.telemetry_percent = 100,
		.telemetry_rate = 20,
		.pool_min = 2,
		.pool_max = 16,
		.pool_memory = 512 * MIB,
		.pool_reserve = 256,
		.pool_languages = list_of_one("python"),
		.quota_sandboxes = UINT64_MAX,
		.quota_memory_bytes = UINT64_MAX,
		.quota_disk_bytes = UINT64_MAX,
		.quota_disk_share = 100,
		.quota_creates = UINT64_MAX,
		.quota_budget = UINT64_MAX,
		.ready_fd = -1,
		.life_fd = -1,
	};
	init_limits(c);
}

void config_done(struct config *c)
{
	for (size_t i = 0; i < n_settings; i++) {
		setting_clear(c, &settings[i]);
		free(c->states[i].pending);
	}
	*c = (struct config){.ready_fd = -1, .life_fd = -1};
}

struct reading { /* one file */
	struct config *config;
	bool is_given[SETTINGS_MAX];
};

/* Of the settings as files have them, the nearest is told. */
static int refuse_setting(const char *label, struct err *err)
{
	char labels[SETTINGS_MAX][64];
	struct nearest near;

	nearest_init(&near, label, strlen(label));
	for (size_t i = 0; i < n_settings; i++) {
		if (!settings[i].section)
			continue;
		(void)snprintf(labels[i], sizeof(labels[i]), "%s%s%s", settings[i].section,
		               settings[i].section[0] ? "." : "", settings[i].name);
		nearest_try(&near, labels[i]);
	}
	(void)err_field(err, label, "no such setting");
	return nearest_hint(&near, err);
}

static int on_entry(const struct toml_entry *e, void *arg, struct err *err)
{
	struct reading *reading = arg;
	const struct setting *key = setting_find(e->section, e->key);
	char label[64];

	if (e->kind == TOML_SECTION)
		return 0;
	(void)snprintf(label, sizeof(label), "%s%s%s", e->section, e->section[0] ? "." : "",
	               e->key);
	if (!key)
		return refuse_setting(label, err);
	if (reading->is_given[key - settings])
		return err_field(err, label, "given twice");
	reading->is_given[key - settings] = true;
	reading->config->states[key - settings].origin =
		(struct origin){.from = ORIGIN_FILE, .line = e->line};
	if (!setting_fits(key->kind, e->kind))
		return err_field(err, label, "must be %s", setting_example(key->kind));
	if (key->kind == SETTING_LIST) {
		setting_set_list(reading->config, key, e->items, e->n_items);
		return 0;
	}
	if (key->kind == SETTING_BOOL)
		return setting_set_bool(reading->config, key, label, e->text, err);
	return setting_set_text(reading->config, key, label, e->text, err);
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
	c->is_file_read = true;
	return config_parse(c, path, text, (size_t)len, err);
}

static int refuse_option(const char *word, struct err *err)
{
	const char *name = word + strspn(word, "-");
	const size_t len = strcspn(name, "=");
	struct nearest near;

	nearest_init(&near, name, len);
	for (size_t i = 0; i < n_settings; i++)
		nearest_try(&near, settings[i].option);
	(void)err_set(err, ERR_INVALID_FIELD, 0, "no such option: '%s'", word);
	return near.best ? err_hint(err, "did you mean '--%s'?", near.best) : -EINVAL;
}

/* The key whose option came up, or NULL at the end of the command line. */
static int next_option(int argc, char **argv, const struct setting **ret, struct err *err)
{
	struct option options[SETTINGS_MAX + 1] = {0};
	int index;
	int found;

	for (size_t i = 0; i < n_settings; i++)
		options[i] = (struct option){
			.name = settings[i].option,
			.has_arg =
				settings[i].kind == SETTING_BOOL ? no_argument : required_argument,
		};
	opterr = 0;
	found = getopt_long(argc, argv, ":", options, &index);
	if (found == ':')
		return err_set(err, ERR_INVALID_FIELD, 0, "'%s' needs a value", argv[optind - 1]);
	if (found == '?')
		return refuse_option(argv[optind - 1], err);
	*ret = found < 0 ? NULL : &settings[index];
	return 0;
}

static int apply_option(struct config *c, const struct setting *key, bool is_again, struct err *err)
{
	const char *const value = optarg;
	char label[64];

	(void)snprintf(label, sizeof(label), "--%s", key->option);
	switch (key->kind) {
	case SETTING_BOOL:
		return setting_set_bool(c, key, label, "true", err);
	case SETTING_LIST:
		if (is_again)
			setting_append(c, key, value);
		else
			setting_set_list(c, key, &value, 1);
		return 0;
	case SETTING_STRING:
	case SETTING_COUNT:
	case SETTING_COUNT64:
	case SETTING_SIZE:
	case SETTING_DURATION:
	case SETTING_CPUS:
	case SETTING_LEVEL:
	case SETTING_MONEY:
		break;
	}
	return setting_set_text(c, key, label, value, err);
}

/* The command line is read twice: first for --config alone, then, after the file, for all
 * others. */
static int read_options(struct config *c, int argc, char **argv, bool is_for_file, struct err *err)
{
	bool is_given[SETTINGS_MAX] = {0};
	const struct setting *key;
	int r;

	optind = 0; /* glibc: start afresh */
	while ((r = next_option(argc, argv, &key, err)) == 0 && key) {
		bool is_file = strcmp(key->option, "config") == 0;

		if (is_file == is_for_file)
			r = apply_option(c, key, is_given[key - settings], err);
		if (r < 0)
			break;
		is_given[key - settings] = true;
		c->states[key - settings].origin.from = ORIGIN_OPTION;
	}
	if (r < 0)
		return r;
	if (optind < argc)
		return err_set(err, ERR_INVALID_FIELD, 0, "'%s' is not an option", argv[optind]);
	return 0;
}

int config_load(struct config *c, int argc, char **argv, struct err *err)
{
	int r = read_options(c, argc, argv, /* is_for_file= */ true, err);

	if (r == 0)
		r = read_config_file(c, err);
	if (r == 0)
		r = read_options(c, argc, argv, /* is_for_file= */ false, err);
	return r < 0 ? r : config_check(c, err);
}

void config_keep_fixed(struct config *next, struct config *old, void (*fn)(const char *option))
{
	for (size_t i = 0; i < n_settings; i++) {
		struct setting_state *state = &next->states[i];

		if (!settings[i].is_fixed || setting_is_equal(next, old, &settings[i]))
			continue;
		fn(settings[i].option);
		state->pending = setting_text(next, &settings[i]);
		state->pending_origin = state->origin;
		setting_swap(next, old, &settings[i]);
	}
}

void config_undo_fixed(struct config *next, struct config *old)
{
	for (size_t i = 0; i < n_settings; i++)
		if (settings[i].is_fixed && !setting_is_equal(next, old, &settings[i]))
			setting_swap(next, old, &settings[i]);
}

void config_print_options(FILE *out)
{
	for (size_t i = 0; i < n_settings; i++)
		(void)fprintf(out, "  --%-24s  %s\n", settings[i].option, settings[i].help);
}
