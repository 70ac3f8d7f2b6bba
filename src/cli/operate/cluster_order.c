// SPDX-License-Identifier: Apache-2.0
#include "cli/operate/cluster_order.h"

#include "base/fd.h"
#include "base/json/json.h"
#include "daemon/daemon.h"

#include <ctype.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define ANSWER_MAX ((size_t)16 << 20)

/* The host's name up to its first dot, as far as it can be a node's. */
static void name_of_host(char *ret, size_t size)
{
	if (gethostname(ret, size) < 0)
		ret[0] = '\0';
	ret[size - 1] = '\0';
	ret[strcspn(ret, ".")] = '\0';
	for (char *p = ret; *p; p++)
		*p = (char)tolower((unsigned char)*p);
}

static json_t *write_order(const struct cluster_opts *o, const struct cluster_settings *s,
                           const char *command, const char *token)
{
	char host[64];

	name_of_host(host, sizeof(host));
	return json_pack("{ss ss ss ss* ss* ss* ss ss* ss* sI sI sI sI sb}", "command", command,
	                 "data_dir", s->data_dir, "run_dir", s->run_dir, "postgres", s->postgres,
	                 "address", o->address ? o->address : s->address, "owner", o->owner, "name",
	                 o->name ? o->name : host, "token", token, "node", o->node, "lifetime_s",
	                 (json_int_t)(o->lifetime_ms / 1000), "fence_after_ms",
	                 (json_int_t)o->fence_after_ms, "lost_after_ms",
	                 (json_int_t)o->lost_after_ms, "certificate_s",
	                 (json_int_t)(s->certificate_ms / 1000), "replace", o->is_replacing);
}

static int read_answer(int fd, struct buf *text)
{
	char part[4096];
	ssize_t n;

	while ((n = read(fd, part, sizeof(part))) > 0)
		if (buf_append(text, part, (size_t)n) < 0)
			return -E2BIG;
	return n < 0 ? -errno : 0;
}

static void run_program(int program_fd, int in_fd, int out_fd)
{
	char *argv[] = {unconst("cloche-cluster"), NULL};

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (dup2(in_fd, STDIN_FILENO) >= 0 && dup2(out_fd, STDOUT_FILENO) >= 0)
		(void)fexecve(program_fd, argv, environ);
	_exit(127);
}

/* The order is small enough for a pipe: writing it waits for nobody. */
static int talk(int program_fd, const char *order, struct buf *answer, struct err *err)
{
	int in[2] = {-1, -1}, out[2] = {-1, -1}, status = 0, r = 0;
	pid_t pid;

	if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot make a pipe");
	pid = fork();
	if (pid == 0)
		run_program(program_fd, in[0], out[1]);
	(void)close(in[0]);
	(void)close(out[1]);
	if (pid < 0)
		r = -errno;
	if (r == 0)
		r = fd_write_all(in[1], order, strlen(order));
	(void)close(in[1]);
	if (r == 0)
		r = read_answer(out[0], answer);
	(void)close(out[0]);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		continue;
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot run cloche-cluster") : 0;
}

static enum err_code code_of(const char *name)
{
	for (int code = ERR_NONE; code < ERR_CODE_COUNT; code++)
		if (strcmp(err_code_name((enum err_code)code), name) == 0)
			return (enum err_code)code;
	return ERR_INTERNAL;
}

static const char *text_of(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text ? text : "";
}

static int take_answer(const struct buf *text, json_t **ret, struct err *err)
{
	auto_json json_t *all = NULL;
	const json_t *error;
	int r = json_parse(buf_str(text), text->len, &all, err);

	if (r < 0)
		return err_set(err, ERR_INTERNAL, 0, "cloche-cluster has ended without an answer");
	error = json_object_get(all, "error");
	if (!error) {
		*ret = json_incref(json_object_get(all, "answer"));
		return 0;
	}
	r = err_set(err, code_of(text_of(error, "code")), 0, "%s", text_of(error, "message"));
	(void)snprintf(err->field, sizeof(err->field), "%s", text_of(error, "field"));
	if (text_of(error, "hint")[0])
		(void)err_hint(err, "%s", text_of(error, "hint"));
	return r;
}

int cluster_order(const struct cluster_opts *o, const char *command, const char *token,
                  json_t **ret, struct err *err)
{
	struct cluster_settings settings = {0};
	struct buf answer = BUF_INIT(ANSWER_MAX);
	auto_json json_t *order = NULL;
	auto_free char *text = NULL;
	auto_fd int program_fd = -1;
	int r;

	if (geteuid() != 0)
		return err_set(err, ERR_FORBIDDEN, 0,
		               "only root may do this: it is about this "
		               "machine");
	r = cluster_settings_read(&settings, o->config, err);
	if (r == 0)
		r = cluster_open_program(&program_fd, err);
	if (r == 0) {
		order = write_order(o, &settings, command, token);
		text = json_dumps(order, JSON_COMPACT);
		r = text ? talk(program_fd, text, &answer, err)
		         : err_field(err, "words", "must be UTF-8");
	}
	if (r == 0)
		r = take_answer(&answer, ret, err);
	buf_done(&answer);
	cluster_settings_done(&settings);
	return r;
}
