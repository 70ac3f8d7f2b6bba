// SPDX-License-Identifier: Apache-2.0
/*
 * What a service of a Compose file may have. The table at the end has a row for each field that
 * Compose knows: how it is read, or that it is refused and what to do instead. Before it are the
 * fields that need more than the common readers (compose_take.h); mounts and networks have files of
 * their own.
 */
#include "cli/compose/compose_take.h"

#include "base/parse.h"

#include <stdio.h>
#include <string.h>

#define PORTS_MAX  32
#define PORT_MOST  65535
#define MILLI_CPUS 1000000

static int take_pull(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                     struct err *err)
{
	auto_free char *text = NULL;
	int result = compose_text(r, v, &text, err);

	if (result < 0)
		return result;
	if (strcmp(text, "always") == 0)
		return compose_put_text(to, "pull", "always");
	if (strcmp(text, "missing") == 0 || strcmp(text, "if_not_present") == 0)
		return compose_put_text(to, "pull", "missing");
	if (strcmp(text, "build") == 0)
		return 0;
	return compose_wrong(r, v, err, "'%.40s' should be always, missing or build", text);
}

static int take_build(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                      struct err *err)
{
	static const struct compose_field fields[] = {
		{"context", take_text},
		{"dockerfile", take_text},
		{"target", take_text},
		{"args", take_pairs},
		{"labels", take_nothing},
		{"pull", take_nothing},
		{"no_cache", take_nothing},
		{"cache_from", take_nothing},
		{"cache_to", take_nothing},
		{"tags", take_nothing},
		{"dockerfile_inline", NULL, "put it into a file, and name that as dockerfile"},
		{"additional_contexts", NULL, "put what it copies into the context"},
		{"secrets", NULL, "a build has no secrets: fetch before it, and copy the files in"},
		{"ssh", NULL, "a build has no SSH agent: fetch before it, and copy the files in"},
		{"network", NULL, "a build reaches what the operator's settings give to builds"},
		{"privileged", NULL, "a build has no rights over the host"},
		{"platforms", NULL, "it is built for this machine: leave it out"},
	};
	auto_free char *where = xstrdup(r->path);
	json_t *build = json_object();
	int result = json_object_set_new(to, "build", build);

	if (result < 0)
		return result;
	if (v->kind == YAML_TEXT) {
		r->field = "context";
		return take_text(r, v, build, err);
	}
	result = compose_read_map(r, where, v, fields, ARRAY_SIZE(fields), build, err);
	if (result == 0 && !json_object_get(build, "context"))
		return compose_put_text(build, "context", ".");
	return result;
}

static int take_env_file(struct compose_reader *r, const struct yaml_value *v, json_t *list,
                         struct err *err)
{
	const struct yaml_value *path = v, *required = NULL;
	auto_free char *text = NULL;
	bool is_required = true;
	int result = 0;

	if (v->kind == YAML_MAP) {
		path = yaml_get(v, "path");
		required = yaml_get(v, "required");
		if (!path || v->n != (size_t)(required ? 2 : 1))
			return compose_wrong(r, v, err, "should have path, and may have required");
	}
	if (required)
		result = compose_flag(r, required, &is_required, err);
	if (result == 0)
		result = compose_text(r, path, &text, err);
	if (result < 0)
		return result;
	return json_array_append_new(list, json_pack("{s:s, s:b, s:i}", "path", text, "required",
	                                             is_required, "line", (int)v->line));
}

static int take_env_files(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                          struct err *err)
{
	json_t *list = json_array();
	int result = json_object_set_new(to, "env_files", list);

	if (result == 0 && v->kind != YAML_LIST)
		return take_env_file(r, v, list, err);
	for (size_t i = 0; result == 0 && i < v->n; i++)
		result = take_env_file(r, v->items[i], list, err);
	return result;
}

static int take_condition(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                          struct err *err)
{
	static const char *const conditions[] = {"service_started", "service_healthy",
	                                         "service_completed_successfully", NULL};
	auto_free char *text = NULL;
	int result = compose_choice(r, v, conditions,
	                            " should be service_started, service_healthy or "
	                            "service_completed_successfully",
	                            &text, err);

	return result == 0 ? compose_put_text(to, "condition", text) : result;
}

static int take_depends(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                        struct err *err)
{
	static const struct compose_field fields[] = {
		{"condition", take_condition},
		{"required", take_true, "what a service waits for must be there: leave it out"},
		{"restart", take_false,
	         "a service is not started again after another: leave it out"},
	};
	json_t *all = json_object_get(to, "depends_on");
	auto_free char *where = xstrdup(r->path);
	int result = 0;

	if (!all) {
		all = json_object();
		(void)json_object_set_new(to, "depends_on", all);
	}
	if (v->kind != YAML_MAP) {
		auto_json json_t *names = NULL;
		size_t i;
		const json_t *name;

		result = compose_texts(r, v, &names, err);
		json_array_foreach(names, i, name)
		{
			(void)json_object_set_new(all, json_string_value(name),
			                          json_string("service_started"));
		}
		return result;
	}
	for (size_t i = 0; result == 0 && i < v->n; i++) {
		auto_json json_t *one = json_pack("{s:s}", "condition", "service_started");
		auto_free char *path = xasprintf("%s.%s", where, v->keys[i]->text);

		if (!v->items[i]->is_null)
			result = compose_read_map(r, path, v->items[i], fields, ARRAY_SIZE(fields),
			                          one, err);
		(void)json_object_set(all, v->keys[i]->text, json_object_get(one, "condition"));
	}
	return result;
}

/* links: a service by its own name, which it has anyway. */
static int take_links(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                      struct err *err)
{
	auto_json json_t *links = NULL;
	int result = compose_texts(r, v, &links, err);
	size_t i;
	const json_t *link;

	json_array_foreach(links, i, link)
	{
		const char *text = json_string_value(link), *colon = strchr(text, ':');

		if (colon && strncmp(text, colon + 1, (size_t)(colon - text)) != 0)
			return compose_wrong(r, v, err,
			                     "'%.60s': a service is reached by its own name", text);
	}
	return result == 0 && !json_object_get(to, "depends_on") ? take_depends(r, v, to, err)
	                                                         : result;
}

static int take_test(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                     struct err *err)
{
	auto_json json_t *words = NULL;
	const char *kind;
	int result = compose_texts(r, v, &words, err);

	if (result < 0)
		return result;
	if (v->kind == YAML_TEXT)
		(void)json_array_insert_new(words, 0, json_string("CMD-SHELL"));
	kind = json_string_value(json_array_get(words, 0));
	if (kind && strcmp(kind, "NONE") == 0)
		return json_object_set_new(to, "test", json_null());
	if (!kind || json_array_size(words) < 2 ||
	    (strcmp(kind, "CMD") != 0 && strcmp(kind, "CMD-SHELL") != 0))
		return compose_wrong(r, v, err,
		                     "should be text, or a list that begins with CMD, "
		                     "CMD-SHELL or NONE");
	return json_object_set(to, "test", words);
}

static int put_number(struct compose_reader *r, const struct yaml_value *v, uint64_t max,
                      const char *name, json_t *to, struct err *err)
{
	uint64_t n;
	int result = compose_number(r, v, max, &n, err);

	return result == 0 ? json_object_set_new(to, name, json_integer((json_int_t)n)) : result;
}

static int take_retries(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                        struct err *err)
{
	return put_number(r, v, 100000, "retries", to, err);
}

static int take_disable(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                        struct err *err)
{
	bool value;
	int result = compose_flag(r, v, &value, err);

	return result == 0 && value ? json_object_set_new(to, "test", json_null()) : result;
}

static int put_port(struct compose_reader *r, const struct yaml_value *v, const char *text,
                    json_t *ports, struct err *err)
{
	const char *slash = strchr(text, '/');
	auto_free char *number = xstrndup(text, slash ? (size_t)(slash - text) : strlen(text));
	const json_t *port;
	uint64_t n;
	size_t i;

	if (slash && strcmp(slash, "/tcp") != 0)
		return compose_wrong(r, v, err, "'%.40s': ports are TCP alone", text);
	if (strchr(number, '-')) {
		(void)compose_wrong(r, v, err, "'%.40s': ranges are not taken", text);
		return err_hint(err, "write each port");
	}
	if (parse_u64(number, PORT_MOST, &n) < 0 || n == 0)
		return compose_wrong(r, v, err, "'%.40s' should be a port", text);
	json_array_foreach(ports, i, port)
	{
		if ((uint64_t)json_integer_value(port) == n)
			return 0;
	}
	if (json_array_size(ports) == PORTS_MAX)
		return compose_wrong(r, v, err, "there are more than %d ports", PORTS_MAX);
	return json_array_append_new(ports, json_integer((json_int_t)n));
}

static int take_port(struct compose_reader *r, const struct yaml_value *v, json_t *ports,
                     struct err *err)
{
	static const char *const known[] = {"target",  "published", "protocol",     "mode",
	                                    "host_ip", "name",      "app_protocol", NULL},
				 *const protocols[] = {"tcp", NULL};
	const struct yaml_value *target = v, *protocol;
	auto_free char *text = NULL, *word = NULL;
	const char *colon;
	int result = v->kind == YAML_MAP ? compose_check_keys(r, v, known, err) : 0;

	if (result < 0)
		return result;
	if (v->kind == YAML_MAP) {
		target = yaml_get(v, "target");
		protocol = yaml_get(v, "protocol");
		if (!target)
			return compose_wrong(r, v, err, "has no target");
		if (protocol)
			result = compose_choice(r, protocol, protocols, ": ports are TCP alone",
			                        &word, err);
		if (result < 0)
			return result;
	}
	result = compose_text(r, target, &text, err);
	if (result < 0)
		return result;
	colon = strrchr(text, ':');
	return put_port(r, v, colon ? colon + 1 : text, ports, err);
}

static int take_ports(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                      struct err *err)
{
	return take_each(r, v, to, "ports", take_port, err);
}

static json_t *limits_of(json_t *to)
{
	if (!json_object_get(to, "limits"))
		(void)json_object_set_new(to, "limits", json_object());
	return json_object_get(to, "limits");
}

static int take_memory(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                       struct err *err)
{
	uint64_t mib;
	int result = compose_mib(r, v, &mib, err);

	return result == 0 ? json_object_set_new(limits_of(to), "memory_mib",
	                                         json_integer((json_int_t)mib))
	                   : result;
}

static int take_cpus(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                     struct err *err)
{
	auto_free char *text = NULL;
	double cpus;
	char *end;
	int result = compose_text(r, v, &text, err);

	if (result < 0)
		return result;
	cpus = strtod(text, &end);
	if (end == text || *end || !(cpus > 0 && cpus < MILLI_CPUS))
		return compose_wrong(r, v, err, "'%.40s' should be a number of CPUs such as 0.5",
		                     text);
	return json_object_set_new(limits_of(to), "vcpus", json_real(cpus));
}

static int take_pids(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                     struct err *err)
{
	return put_number(r, v, 4194304, "pids", limits_of(to), err);
}

static int take_disk(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                     struct err *err)
{
	return put_number(r, v, UINT32_MAX, "disk_mib", limits_of(to), err);
}

static int put_restart(json_t *to, bool is_always, uint64_t retries)
{
	return json_object_set_new(
		to, "restart",
		json_pack("{s:b, s:i}", "always", is_always, "retries", (int)retries));
}

static int take_restart(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                        struct err *err)
{
	static const char on_failure[] = "on-failure";
	auto_free char *text = NULL;
	uint64_t n = 0;
	int result = compose_text(r, v, &text, err);

	if (result < 0 || strcmp(text, "no") == 0)
		return result;
	if (strcmp(text, "always") == 0 || strcmp(text, "unless-stopped") == 0)
		return put_restart(to, true, 0);
	if (strcmp(text, on_failure) == 0 ||
	    (strncmp(text, "on-failure:", sizeof(on_failure)) == 0 &&
	     parse_u64(text + sizeof(on_failure), 100000, &n) == 0 && n > 0))
		return put_restart(to, false, n);
	return compose_wrong(r, v, err,
	                     "'%.40s' should be \"no\", always, unless-stopped or on-failure[:N]",
	                     text);
}

static int take_security(struct compose_reader *r, const struct yaml_value *v, json_t *to,
                         struct err *err)
{
	auto_json json_t *list = NULL;
	int result = compose_texts(r, v, &list, err);
	size_t i;
	const json_t *one;

	(void)to;
	json_array_foreach(list, i, one)
	{
		if (strncmp(json_string_value(one), "no-new-privileges", 17) != 0)
			return compose_wrong(r, v, err, "'%.60s' is not taken",
			                     json_string_value(one));
	}
	return result;
}

#define NO_RIGHTS    "a sandbox has no rights over the host: leave it out"
#define ONE_SANDBOX  "copies of a service are services of their own names"
#define BELOW(table) .fields = (table), .n_fields = ARRAY_SIZE(table)

/* x-cloche: what only cloche has. */
static const struct compose_field own_fields[] = {{"template", take_text}, {"disk_mib", take_disk}};

static const struct compose_field healthcheck_fields[] = {
	{"test", take_test},         {"interval", take_time},       {"timeout", take_time},
	{"start_period", take_time}, {"start_interval", take_time}, {"retries", take_retries},
	{"disable", take_disable},
};

static const struct compose_field limits_fields[] = {
	{"cpus", take_cpus}, {"memory", take_memory}, {"pids", take_pids}};

static const struct compose_field reservations_fields[] = {
	{"cpus", take_nothing},
	{"memory", take_nothing},
	{"devices", NULL, "a sandbox has no GPU and no other device of the host"},
};

static const struct compose_field resources_fields[] = {
	{"limits", BELOW(limits_fields)}, {"reservations", BELOW(reservations_fields)}};

static const struct compose_field deploy_fields[] = {
	{"resources", BELOW(resources_fields)},
	{"replicas", take_one, ONE_SANDBOX},
	{"labels", take_nothing},
	{"mode", NULL, "there is one sandbox for each service: leave it out"},
	{"placement", NULL, "leave it out"},
	{"restart_policy", NULL, "write restart: on-failure beside deploy"},
	{"update_config", take_nothing},
	{"rollback_config", take_nothing},
	{"endpoint_mode", NULL, "leave it out"},
};

/* clang-format off */
const struct compose_field compose_service_fields[] = {
	{"image",            take_text},
	{"x-cloche",         BELOW(own_fields)},
	{"pull_policy",      take_pull},
	{"build",            take_build},
	{"command",          take_words},
	{"entrypoint",       take_words},
	{"environment",      take_pairs},
	{"env_file",         take_env_files},
	{"depends_on",       take_depends},
	{"links",            take_links},
	{"healthcheck",      BELOW(healthcheck_fields), .is_object = true},
	{"ports",            take_ports},
	{"expose",           take_nothing}, /* members reach every port */
	{"volumes",          take_volumes},
	{"tmpfs",            take_tmpfs},
	{"working_dir",      take_text},
	{"user",             take_text},
	{"networks",         take_networks},
	{"network_mode",     take_network_mode, "members of a project are in one network; --network and --allow say what they reach outside"},
	{"hostname",         take_nothing}, /* others find it by the service's name */
	{"container_name",   take_nothing},
	{"mem_limit",        take_memory},
	{"cpus",             take_cpus},
	{"pids_limit",       take_pids},
	{"deploy",           BELOW(deploy_fields)},
	{"scale",            take_one,          ONE_SANDBOX},
	{"restart",          take_restart},
	{"profiles",         take_texts},
	{"privileged",       take_false,        NO_RIGHTS},
	{"read_only",        take_false,        "the root of a sandbox can be written, and goes with it: leave it out"},
	{"security_opt",     take_security,     "the walls of a sandbox stay as they are: leave it out"},
	/* What has no meaning here, and is no promise either. */
	{"stdin_open",       take_nothing},
	{"tty",              take_nothing},
	{"init",             take_nothing},
	{"labels",           take_nothing},
	{"annotations",      take_nothing},
	{"logging",          take_nothing},
	{"attach",           take_nothing},
	{"cap_drop",         take_nothing},
	{"mem_reservation",  take_nothing},
	{"memswap_limit",    take_nothing},
	{"cpu_shares",       take_nothing},
	{"oom_score_adj",    take_nothing},
	{"stop_grace_period", take_nothing},
	{"stop_signal",      take_nothing},
	{"platform",         take_nothing},
	/* What is refused. */
	{"extends",          NULL, "use YAML's own anchors: `<<: *name`"},
	{"secrets",          NULL, "copy a file in with volumes, or use `cloche secret` so that it never comes inside"},
	{"configs",          NULL, "copy the file in with volumes: ./FILE:/PATH"},
	{"cap_add",          NULL, NO_RIGHTS},
	{"devices",          NULL, NO_RIGHTS},
	{"device_cgroup_rules", NULL, NO_RIGHTS},
	{"gpus",             NULL, "a sandbox has no GPU"},
	{"sysctls",          NULL, NO_RIGHTS},
	{"ulimits",          NULL, "limits are mem_limit, cpus and pids_limit"},
	{"shm_size",         NULL, "what is shared counts as memory: raise mem_limit"},
	{"pid",              NULL, NO_RIGHTS},
	{"ipc",              NULL, NO_RIGHTS},
	{"uts",              NULL, NO_RIGHTS},
	{"userns_mode",      NULL, NO_RIGHTS},
	{"cgroup",           NULL, NO_RIGHTS},
	{"cgroup_parent",    NULL, NO_RIGHTS},
	{"runtime",          NULL, "cloche compose up --engine jail|vm chooses"},
	{"isolation",        NULL, "cloche compose up --engine jail|vm chooses"},
	{"extra_hosts",      NULL, "a sandbox reaches hosts by its policy: cloche compose up --allow NAME"},
	{"external_links",   NULL, "nobody outside of the project is reached by name"},
	{"dns",              NULL, "the network wall answers names: leave it out"},
	{"dns_search",       NULL, "the network wall answers names: leave it out"},
	{"dns_opt",          NULL, "the network wall answers names: leave it out"},
	{"domainname",       NULL, "use hostname"},
	{"mac_address",      NULL, "leave it out"},
	{"volumes_from",     NULL, "name the volumes in each service"},
	{"volume_driver",    NULL, "leave it out"},
	{"group_add",        NULL, "give the user its groups in the image"},
	{"credential_spec",  NULL, "leave it out"},
	{"develop",          NULL, "run `cloche compose up` again after a change"},
	{"post_start",       NULL, "run it with `cloche compose exec`"},
	{"pre_stop",         NULL, "run it with `cloche compose exec` before `cloche compose down`"},
	{"provider",         NULL, "leave it out"},
	{"models",           NULL, "leave it out"},
	{"blkio_config",     NULL, "leave it out"},
	{"cpuset",           NULL, "use cpus"},
	{"cpu_quota",        NULL, "use cpus"},
	{"cpu_period",       NULL, "use cpus"},
	{"cpu_count",        NULL, "use cpus"},
	{"cpu_percent",      NULL, "use cpus"},
	{"cpu_rt_runtime",   NULL, "use cpus"},
	{"cpu_rt_period",    NULL, "use cpus"},
	{"mem_swappiness",   NULL, "leave it out"},
	{"oom_kill_disable", NULL, "leave it out"},
	{"storage_opt",      NULL, "leave it out"},
};
/* clang-format on */
const size_t compose_n_service_fields = ARRAY_SIZE(compose_service_fields);
