// SPDX-License-Identifier: Apache-2.0
/* `cloche serve`: reads the settings, prepares the site, runs the launcher, and tells its caller
 * when it is ready.
 */
#include "base/fd.h"
#include "daemon/daemon.h"
#include "daemon/gateway/settings_check.h"
#include "daemon/launcher/launcher.h"
#include "daemon/notify.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define EXIT_USAGE 2

static int fail(const struct err *err, int code)
{
	(void)fprintf(stderr, "cloche serve: %s\n", err->message);
	if (err->hint[0])
		(void)fprintf(stderr, "  hint: %s\n", err->hint);
	return code;
}

static void tell_ready_fd(const struct config *c)
{
	static bool is_told;

	if (c->ready_fd < 0 || is_told)
		return;
	is_told = true; /* once: later readiness is a restart's */
	if (fd_write_all(c->ready_fd, "ready\n", 6) < 0)
		log_warn("daemon.ready_fd_failed", "fd=%d", c->ready_fd);
	(void)close(c->ready_fd);
}

static void describe(const struct site *site, char *text, size_t size)
{
	const struct config *c = site->config;
	int at = 0;

	text[0] = '\0';
	for (size_t i = 0; i < site->n_listeners; i++) {
		char name[64];

		if (site->listeners[i].is_unix || at < 0 || (size_t)at >= size)
			continue;
		listen_name(site->listeners[i].fd, name, sizeof(name));
		at += snprintf(text + at, size - (size_t)at, "%s%s://%s", at ? " " : "",
		               c->tls_cert ? "https" : "http", name);
	}
}

static void on_ready(const struct site *site)
{
	const struct config *c = site->config;
	auto_free char *key = xasprintf("%s/admin.key", c->data_dir);
	char urls[512];

	site_drop_empty_key(site);
	describe(site, urls, sizeof(urls));
	if (access(key, F_OK) < 0)
		key[0] = '\0';
	if (isatty(STDOUT_FILENO) && c->ready_fd < 0) {
		(void)printf("cloche %s is ready: %s%s%s%s%s\n", CLOCHE_VERSION, urls,
		             urls[0] ? ", " : "", c->socket, key[0] ? ", key in " : "", key);
		(void)fflush(stdout);
	} else {
		log_info("daemon.ready", "version=%s url='%s' socket='%s' key='%s'", CLOCHE_VERSION,
		         urls, c->socket, key);
	}
	notify_send("READY=1");
	notify_status("ready: %s%s%s", urls, urls[0] ? ", " : "", c->socket);
	tell_ready_fd(c);
}

static int check_root(struct err *err)
{
	if (geteuid() == 0)
		return 0;
	(void)err_set(err, ERR_FORBIDDEN, 0,
	              "the daemon needs root, to make namespaces and mounts");
	return err_hint(err, "start it with sudo, or by systemd: systemctl start cloche");
}

static int serve(struct config *config, int argc, char **argv)
{
	struct reload reload = {.config = config, .argc = argc, .argv = argv};
	struct site site;
	struct err err = {0};
	int code = 0;
	int r;

	(void)umask(022);
	site_init(&site, config);
	r = check_root(&err);
	if (r == 0)
		r = settings_check(config, &err);
	if (r == 0)
		r = site_prepare(&site, &err);
	if (r == 0 && !config->is_sweep)
		site.doctor = doctor_json(
			config->sandboxes_max); /* the gateway sees nothing of the host itself */
	if (r == 0)
		r = launcher_run(&site, &reload, on_ready, &err);
	(void)reload_undo(&reload); /* stopped in the middle of one */
	site_clear(&site);
	if (r < 0)
		code = fail(&err, r == -EALREADY ? EXIT_ALREADY_RUNNING : EXIT_FAILURE);
	site_done(&site);
	return code;
}

static const char help[] = "Usage: cloche serve [OPTIONS]\n\n"
			   "Runs the daemon, as root, until SIGTERM. Sandboxes go on without it, "
			   "and the next one takes\n"
			   "them over. SIGHUP reads the settings again. Each option is also a "
			   "setting of the file, which\n"
			   "is TOML; the command line wins.\n\n"
			   "Options:\n";
static const char examples[] = "\nExamples:\n"
			       "  cloche serve --print-config > /etc/cloche/cloche.toml\n"
			       "  cloche serve --listen 127.0.0.1:7070 --log-level debug\n"
			       "  cloche serve --data /tmp/try --run /tmp/try-run --rm\n";

int serve_command(int argc, char **argv)
{
	struct config config;
	struct err err = {0};
	int code;

	config_init(&config);
	if (config_load(&config, argc, argv, &err) < 0) {
		code = fail(&err, EXIT_USAGE);
	} else if (config.wants_help) {
		(void)fputs(help, stdout);
		config_print_options(stdout);
		(void)fputs(examples, stdout);
		code = 0;
	} else if (config.wants_file) {
		code = config_print_file(&config, stdout, &err) < 0 ? fail(&err, EXIT_FAILURE) : 0;
	} else {
		log_init("cloche", config.log_level);
		code = serve(&config, argc, argv);
	}
	config_done(&config);
	return code;
}
