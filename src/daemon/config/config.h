// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The daemon's settings: defaults of this host, then the file, then the command line; each
 * overrides the one before. One table names every setting with its type, its bounds, its place in
 * the file and its option. Beside its value each has its origin, and what the file says if that
 * waits for a restart.
 */
#include "base/log.h"
#include "engine/engine.h"
#include "tenant/price.h"

#include <stdio.h>

#define CONFIG_FILE  "/etc/cloche/cloche.toml"
#define SETTINGS_MAX 144

enum origin_from { ORIGIN_DEFAULT, ORIGIN_FILE, ORIGIN_ENVIRONMENT, ORIGIN_OPTION };

struct origin { /* of a value */
	enum origin_from from;
	const char *place; /* a file, or a variable of the environment; NULL: the settings file */
	unsigned line; /* of the settings file, from 1; also if an option overrides it. 0: none */
};

struct setting_state { /* of one row of the table */
	struct origin origin;
	char *pending; /* the value from the next start on, as in a file; NULL: the same */
	struct origin pending_origin;
};

struct config {
	char *file; /* NULL: CONFIG_FILE if it exists */
	bool is_file_read;
	char **listen; /* "127.0.0.1:7070", "[::1]:7070", "none"; NULL-terminated, as all lists */
	char *socket;  /* NULL: RUN/cloche.sock; "none" */
	char *data_dir, *run_dir;
	char **hosts; /* Host names to answer to; NULL: those of the listeners; "*": all */
	char *tls_cert, *tls_key;
	char *user;  /* who the gateway runs as */
	char *agent; /* its binary; NULL: looked for beside the program */
	enum log_level log_level;
	struct guest_limits default_limits, max_limits;
	uint64_t default_timeout_ms, max_timeout_ms;
	uint64_t spool_bytes; /* of an exec's output; of a sandbox's, a project's, all: */
	uint64_t output_sandbox, output_project, output_host;
	uint64_t request_bytes; /* of a body */
	uint32_t sandboxes_max, persistent_max, execs_max, ended_max;
	uint64_t uid_base;   /* of the first sandbox */
	uint32_t uid_ranges; /* a sandbox has one; 0: all behind uid_base */
	uint64_t ended_age_ms, ended_bytes;
	uint64_t watchdog_ms; /* 0: parts are never replaced for being stuck */
	uint64_t usage_period_ms, usage_kept_ms;
	uint64_t history_bytes, history_runs;
	struct prices prices;
	char *currency;
	uint64_t events_age_ms, events_bytes, events_count; /* kept at most */
	uint32_t events_rate;
	uint32_t pool_min, pool_max;
	uint64_t pool_memory;
	uint32_t pool_reserve;
	uint64_t pool_reserve_memory;
	char **pool_languages;
	uint64_t compat_wait_ms;
	uint64_t results_sandbox, results_project;
	bool is_metrics_open;
	char *default_template;   /* of creates that name none */
	char *default_engine;     /* likewise; NULL: the strongest that runs at full speed */
	char *preview_domain;     /* PORT-ID.DOMAIN is a sandbox's; NULL: none */
	char *preview_url;        /* where clients find this daemon; NULL: its first TCP listener */
	char **network_resolvers; /* addresses; NULL: the host's own */
	char **network_never;     /* ranges that no policy opens; or NULL */
	char **network_may_open;  /* of the operator's addresses: one may; or NULL */
	char *secrets_key_file;   /* master keys (secret/master_keys.h); NULL: DATA/secrets.key */
	char *identity_issuer;    /* URL of the issuer of sandboxes' tokens; NULL: there is none */
	char **identity_audiences; /* that policies may name; NULL: any */
	uint64_t identity_token_ms, identity_rotate_ms;
	char *network_ca_file;               /* certificates to trust beside the host's; or NULL */
	uint32_t network_connections;        /* of a sandbox at once */
	char *templates_sources;             /* apt's: a directory as /etc/apt, or a file */
	char *templates_npm, *templates_pip; /* URLs; NULL: the defaults of npm and pip */
	char **templates_build; /* recipes that are built at the start if missing; or NULL */
	char **templates_names; /* that builds may reach on private addresses; or NULL */
	uint64_t templates_cache, templates_packages;
	char *registries_default; /* build/image/registries.h, as the other two; or NULL */
	char **registries_mirrors, **registries_credentials;
	char *telemetry_url;          /* of a collector that takes OTLP; NULL: none */
	char *telemetry_headers_file; /* what it wants besides, such as a key; or NULL */
	char **telemetry_signals;     /* of telemetry.h's names; NULL: all */
	uint64_t telemetry_interval_ms;
	uint32_t telemetry_percent, telemetry_rate; /* of traces */
	char *login_issuer, *login_client_id;       /* of the login provider; NULL: there is none */
	char *login_secret_file;                    /* NULL: a public client */
	char *login_name;                           /* of the provider, for people */
	char **login_scopes;
	char *login_roles_claim;
	char **login_roles; /* person/role_map.h */
	uint64_t login_session_ms, login_check_ms;
	char *audit_s3_url, *audit_syslog_url; /* where audit entries are sent; or NULL */
	char *audit_s3_region, *audit_s3_credentials;
	uint64_t audit_s3_interval_ms;
	char *cluster_postgres; /* conninfo of the cluster's database; NULL: this node is alone */
	char *cluster_address;  /* where other nodes reach this one */
	uint64_t cluster_certificate_ms; /* how long what this node signs is good */
	char *cluster_objects; /* where its objects lie (object/object_location.h); or NULL */
	char *cluster_objects_endpoint, *cluster_objects_region; /* or NULL, as the next two */
	char *cluster_objects_credentials, *cluster_objects_ca;  /* files */
	uint64_t cluster_objects_collect_ms;   /* between two collections; 0: none */
	uint64_t cluster_generation_ms;        /* between two of a sandbox that outlives its node */
	uint32_t cluster_objects_collect_most; /* percent of all that may go at once */
	char **webhooks_allow; /* ranges that are not public, and may be sent to; or NULL */
	/* The quota of each project; UINT64_MAX (CPUs: 0) = unlimited. */
	uint64_t quota_sandboxes, quota_memory_bytes, quota_disk_bytes, quota_creates, quota_budget;
	uint32_t quota_cpu_milli;
	uint32_t quota_disk_share; /* percent of the layers' room; 100: all of it */
	bool is_plain_storage;
	uint64_t disk_reserve, disk_ahead; /* 0: by the disk's size */
	char **engines;                    /* that sandboxes may have; NULL: all */
	bool is_vm_emulated;               /* as if there were no KVM */
	uint64_t vm_boot_ms;
	char *warm_modules; /* "" = none but the driver's own */
	bool has_no_zygotes;
	bool has_no_favordynmods;
	bool is_rm;    /* delete all sandboxes at the end */
	bool is_sweep; /* and the end comes as soon as they are adopted */
	bool wants_help, wants_file;
	int32_t ready_fd; /* gets "ready\n"; -1 = none */
	int32_t life_fd;  /* the daemon stops when its other end is closed; -1 = none */
	struct setting_state states[SETTINGS_MAX];
};

void config_init(struct config *c); /* defaults, fit to this host */
void config_done(struct config *c);
/* A file's text; name is for errors. */
must_check int config_parse(struct config *c, const char *name, const char *text, size_t len,
                            struct err *err);
/* The command line, with the file that it names (or the usual one) read first, then checked as a
 * whole. argv[0] is skipped. */
must_check int config_load(struct config *c, int argc, char **argv, struct err *err);
/* The last step of config_load(): makes paths absolute, and checks settings against each other. */
must_check int config_check(struct config *c, struct err *err);
uint32_t config_engines_forbidden(const struct config *c); /* bits of 1 << number */
/* Swaps the values of settings that a running daemon cannot change, where they differ, between
 * *next and *old, so that *next has those in force, and knows those that wait for a restart; fn is
 * called with the option of each. */
void config_keep_fixed(struct config *next, struct config *old, void (*fn)(const char *option));
/* Takes that back: *old is as it was, and *next can be thrown away. */
void config_undo_fixed(struct config *next, struct config *old);
void config_print_options(FILE *out);
/* Prints a file of settings that gives these. */
must_check int config_print_file(const struct config *c, FILE *out, struct err *err);
