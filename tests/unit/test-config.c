// SPDX-License-Identifier: Apache-2.0
#include "base/text/toml.h"
#include "base/units.h"
#include "daemon/config/config.h"
#include "daemon/config/quantity.h"
#include "daemon/config/setting.h"
#include "test.h"

#include <fcntl.h>
#include <string.h>

static struct config config;
static struct err err;

static int parse(const char *text)
{
	err = (struct err){0};
	config_done(&config);
	config_init(&config);
	return config_parse(&config, "c.toml", text, strlen(text), &err);
}

static int load(int argc, const char *const *argv)
{
	char *words[16];

	err = (struct err){0};
	config_done(&config);
	config_init(&config);
	for (int i = 0; i < argc; i++)
		words[i] = unconst(argv[i]);
	words[argc] = NULL;
	return config_load(&config, argc, words, &err);
}

#define LOAD(...)                                                                                  \
	load((int)ARRAY_SIZE(((const char *const[]){"serve", __VA_ARGS__})),                       \
	     (const char *const[]){"serve", __VA_ARGS__})

static char told[256];

static void tell(const char *option)
{
	size_t len = strlen(told);

	(void)snprintf(told + len, sizeof(told) - len, "%s ", option);
}

TEST(settings_that_need_a_restart_are_kept_and_told_and_the_others_change)
{
	static const char text[] = "data = '/b'\nexecs_max = 6\nplain_storage = true";
	struct config next;

	CHECK_INT(parse("data = '/a'\nlisten = ['127.0.0.1:1']\nexecs_max = 5"), 0);
	config_init(&next);
	CHECK_INT(config_parse(&next, "c", text, sizeof(text) - 1, &err), 0);
	told[0] = '\0';
	config_keep_fixed(&next, &config, tell);
	CHECK_STR(told, "listen data plain-storage ");
	CHECK_STR(next.data_dir, "/a");
	CHECK_STR(next.listen[0], "127.0.0.1:1");
	CHECK(!next.is_plain_storage);
	CHECK_INT(next.execs_max, 6);
	config_done(&next);
}

static const struct setting_state *state_of(const struct config *c, const char *section,
                                            const char *name)
{
	return &c->states[setting_find(section, name) - settings];
}

TEST(a_value_that_waits_for_a_restart_is_known_with_its_origin_until_it_is_undone)
{
	static const char text[] = "# moved\ndata = '/b'\nuser = 'u'\nexecs_max = 6";
	struct config next;

	CHECK_INT(parse("data = '/a'\nuser = 'u'\nexecs_max = 5"), 0);
	config_init(&next);
	CHECK_INT(config_parse(&next, "c", text, sizeof(text) - 1, &err), 0);
	config_keep_fixed(&next, &config, tell);
	CHECK_INT(state_of(&next, "", "data")->origin.line, 1);
	CHECK_STR(state_of(&next, "", "data")->pending, "\"/b\"");
	CHECK_INT(state_of(&next, "", "data")->pending_origin.line, 2);
	CHECK_INT(state_of(&next, "", "user")->origin.line, 3);
	CHECK(!state_of(&next, "", "user")->pending);
	CHECK_INT(state_of(&next, "", "execs_max")->origin.line, 4);
	CHECK_INT(state_of(&next, "", "ended_max")->origin.from, ORIGIN_DEFAULT);
	config_undo_fixed(&next, &config);
	CHECK_STR(config.data_dir, "/a");
	CHECK_INT(state_of(&config, "", "data")->origin.line, 1);
	CHECK(!state_of(&config, "", "data")->pending);
	config_done(&next);
}

TEST(an_option_is_the_origin_of_its_value)
{
	CHECK_INT(LOAD("--execs-max", "7"), 0);
	CHECK_INT(state_of(&config, "", "execs_max")->origin.from, ORIGIN_OPTION);
}

TEST(a_file_sets_every_kind_of_value)
{
	CHECK_INT(parse("# settings\n"
	                "listen = [\"127.0.0.1:1\", # first\n  '[::1]:2',\n]\n"
	                "data = \"/d\\\"x\"\n"
	                "plain_storage = true\n"
	                "sandboxes_max = 12\n"
	                "spool = \"1MiB\"\n"
	                "request_max = \"2MiB\"\n"
	                "log_level = \"warn\"\n"
	                "[defaults]\n"
	                "vcpus = 1.5\n"
	                "memory = \"256MiB\"\n"
	                "timeout = \"90s\"\n"
	                "[ceilings]\n"
	                "memory = 1073741824\n"
	                "timeout = \"1d\""),
	          0);
	CHECK_STR(config.listen[0], "127.0.0.1:1");
	CHECK_STR(config.listen[1], "[::1]:2");
	CHECK(!config.listen[2]);
	CHECK_STR(config.data_dir, "/d\"x");
	CHECK(config.is_plain_storage);
	CHECK_INT(config.sandboxes_max, 12);
	CHECK_INT(config.spool_bytes, MIB);
	CHECK_INT(config.request_bytes, 2 * MIB);
	CHECK_INT(config.log_level, LOG_WARN);
	CHECK_INT(config.default_limits.cpu_milli, 1500);
	CHECK_INT(config.default_limits.memory_bytes, 256 * MIB);
	CHECK_INT(config.default_timeout_ms, 90000);
	CHECK_INT(config.max_limits.memory_bytes, GIB);
	CHECK_INT(config.max_timeout_ms, DAY_MS);
}

TEST(a_mistake_is_told_with_file_line_and_setting)
{
	static const struct {
		const char *text, *message;
	} rows[] = {
		{"\n\nlisten_on = 1", "c.toml:3: listen_on: no such setting"},
		{"[limits]\nvcpus = 1", "c.toml:2: limits.vcpus: no such setting"},
		{"run = \"/a\"\nrun = \"/b\"", "c.toml:2: run: given twice"},
		{"run = 5", "c.toml:1: run: must be a string that is not empty"},
		{"run = \"\"", "c.toml:1: run: must not be empty"},
		{"listen = \"x\"", "c.toml:1: listen: must be an array of strings"},
		{"plain_storage = yes", "c.toml:1: plain_storage: 'yes' is not true or false"},
		{"sandboxes_max = 0", "c.toml:1: sandboxes_max: '0' is not between 1 and 32768"},
		{"sandboxes_max = -1", "c.toml:1: sandboxes_max: '-1' is not a whole number"},
		{"spool = \"16MB\"", "c.toml:1: spool: '16MB' is not a size such as \"512MiB\""},
		{"[defaults]\ntimeout = \"5\"", "c.toml:2: defaults.timeout: '5' is not a duration "
	                                        "such as \"30s\" (ms, s, m, h, d)"},
		{"data = \"/x", "c.toml:1: a string does not end on its line"},
		{"data = \"/x\" y", "c.toml:1: what follows the value is not understood"},
		{"data \"/x\"", "c.toml:1: '=' was expected after 'data'"},
		{"data =", "c.toml:1: a value was expected"},
		{"listen = [\"a\"\n\"b\"]", "c.toml:2: ',' or ']' was expected in an array"},
		{"listen = [1]", "c.toml:1: a string in quotes was expected"},
		{"[defaults", "c.toml:1: ']' was expected after the section's name"},
		{"data = \"a\\x\"",
	         "c.toml:1: this escape is not understood; \\\\ \\\" \\n and \\t are"},
		{"data = \"\xff\"", "c.toml: not a text in UTF-8"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		CHECK(parse(rows[i].text) < 0);
		CHECK_STR(err.message, rows[i].message);
	}
}

TEST(a_near_miss_is_told_with_the_setting_that_was_meant)
{
	static const struct {
		const char *text, *hint;
	} rows[] = {
		{"sandbox_max = 5", "did you mean 'sandboxes_max'?"},
		{"[default]\ntimeout = \"5s\"", "did you mean 'defaults.timeout'?"},
		{"[defaults]\ntimeouts = \"5s\"", "did you mean 'defaults.timeout'?"},
		{"colour_of_the_sky = 5", ""},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		CHECK(parse(rows[i].text) < 0);
		CHECK_STR(err.hint, rows[i].hint);
	}
}

TEST(an_option_overrides_the_file_and_lists_are_replaced_then_grow)
{
	char path[] = "/tmp/test-config-XXXXXX";
	int fd = mkstemp(path);
	static const char text[] = "listen = [\"127.0.0.1:1\"]\nrun = \"/r\"\nexecs_max = 7\n";

	CHECK(fd >= 0);
	CHECK_INT(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
	(void)close(fd);
	CHECK_INT(LOAD("--listen", "127.0.0.1:2", "--config", path, "--listen=none"), 0);
	CHECK_STR(config.listen[0], "127.0.0.1:2");
	CHECK_STR(config.listen[1], "none");
	CHECK(!config.listen[2]);
	CHECK_STR(config.run_dir, "/r");
	CHECK_STR(config.socket, "/r/cloche.sock");
	CHECK_INT(config.execs_max, 7);
	(void)unlink(path);
}

TEST(uids_of_sandboxes_begin_and_end_where_the_settings_say)
{
	static const struct {
		const char *text, *message;
	} rows[] = {
		{"uid_base = 100000",
	         "c.toml:1: uid_base: '100000' is not between 805306368 and 2952724480"},
		{"uid_base = 805306369", "uid_base: 805306369 is not a multiple of 65536"},
		{"uid_base = 2887188480\nuid_ranges = 1002",
	         "uid_ranges: there are 1001 behind uid_base"},
		{"uid_ranges = 999", "uid_ranges: 999 are not enough for sandboxes_max, which is "
	                             "1000: each sandbox has one, and so has each that is made "
	                             "ahead"},
		{"uid_base = 2952724480",
	         "uid_ranges: 1 are not enough for sandboxes_max, which is "
	         "1000: each sandbox has one, and so has each that is "
	         "made ahead"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char path[] = "/tmp/test-config-XXXXXX";
		int fd = mkstemp(path);
		ssize_t len = (ssize_t)strlen(rows[i].text);
		const char *found;

		CHECK(fd >= 0);
		CHECK_INT(write(fd, rows[i].text, (size_t)len), len);
		(void)close(fd);
		CHECK(LOAD("--config", path) < 0);
		found = strstr(err.message, "uid_");
		CHECK(found != NULL && strstr(rows[i].message, found) != NULL);
		(void)unlink(path);
	}
	CHECK_INT(LOAD("--uid-base", "871890944", "--uid-ranges", "1000"), 0);
	CHECK_INT(config.uid_base, 871890944);
	CHECK_INT(config.uid_ranges, 1000);
}

TEST(a_bad_command_line_names_the_word)
{
	CHECK(LOAD("--lisen", "x") < 0);
	CHECK_STR(err.message, "no such option: '--lisen'");
	CHECK_STR(err.hint, "did you mean '--listen'?");
	CHECK(LOAD("--data") < 0);
	CHECK_STR(err.message, "'--data' needs a value");
	CHECK(LOAD("here") < 0);
	CHECK_STR(err.message, "'here' is not an option");
	CHECK(LOAD("--max-memory", "1") < 0);
	CHECK_STR(err.message, "--max-memory: '1' is not between 8388608 and 70368744177664");
	CHECK(LOAD("--config", "/nonexistent/c.toml") < 0);
	CHECK_STR(err.message, "cannot read '/nonexistent/c.toml': No such file or directory");
	CHECK(LOAD("--tls-cert", "/c.pem") < 0);
	CHECK_STR(err.message, "tls_key: certificate and key go together");
}

TEST(a_default_above_its_ceiling_is_refused)
{
	CHECK(LOAD("--max-memory", "64MiB", "--default-memory", "65MiB") < 0);
	CHECK_STR(err.message, "memory: the default is above the ceiling");
}

TEST(a_relative_path_is_taken_from_the_working_directory)
{
	auto_free char *cwd = getcwd(NULL, 0);
	auto_free char *wanted = xasprintf("%s/here", cwd);

	CHECK_INT(LOAD("--data", "here", "--socket", "none"), 0);
	CHECK_STR(config.data_dir, wanted);
	CHECK_STR(config.socket, "none");
}

TEST(figures_are_read_whole_or_not_at_all)
{
	static const char *const bad[] = {
		"",       "MiB",  "1 MiB", "1mib",  "-1MiB",
		"1.5GiB", "0x10", "01",    "1MiBx", "99999999999999999999"};
	uint64_t value;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK(quantity_parse_size(bad[i], &value) < 0);
	CHECK_INT(quantity_parse_size("17179869184GiB", &value), -ERANGE);
	CHECK_INT(quantity_parse_size("2GiB", &value), 0);
	CHECK_INT(value, 2 * GIB);
	CHECK_INT(quantity_parse_duration_ms("250ms", &value), 0);
	CHECK_INT(value, 250);
	CHECK_INT(quantity_parse_cpus_milli("0.05", &value), 0);
	CHECK_INT(value, 50);
	CHECK(quantity_parse_cpus_milli("1.", &value) < 0);
	CHECK(quantity_parse_cpus_milli("1.0001", &value) < 0);
	CHECK(quantity_parse_cpus_milli(".5", &value) < 0);
	CHECK(quantity_parse_cpus_milli("1.-5", &value) < 0);
}
