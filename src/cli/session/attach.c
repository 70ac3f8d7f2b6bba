// SPDX-License-Identifier: Apache-2.0
/*
 * Theory of operation: the exec is started detached with a PTY, then one thread polls the
 * WebSocket, our stdin and a signalfd for the window's size. Keys go inside untouched, Ctrl-C too:
 * the terminal there makes the signal. Whatever ends the session, our terminal gets its old mode
 * back.
 */
#include "cli/session/attach.h"

#include "base/fd.h"
#include "cli/frame/command.h"
#include "cli/frame/commands.h"
#include "cli/term/text.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>

#define KEYS_AT_ONCE 4096

struct attach {
	struct remote *remote;
	int signal_fd;
	bool is_raw;
	struct termios old_mode;
	bool has_stdin; /* still open */
	json_t *exec;   /* as it ended */
	/* What the daemon would not do for us, such as to set the size of the terminal of a command
	 * that has ended: of interest if nothing else follows. */
	struct err refusal;
};

static int enter_raw_mode(struct attach *a, struct err *err)
{
	struct termios mode;

	if (!isatty(STDIN_FILENO))
		return 0;
	if (tcgetattr(STDIN_FILENO, &a->old_mode) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot read the terminal's mode");
	mode = a->old_mode;
	cfmakeraw(&mode);
	if (tcsetattr(STDIN_FILENO, TCSADRAIN, &mode) < 0)
		return err_set(err, ERR_INTERNAL, errno, "cannot set the terminal's mode");
	a->is_raw = true;
	return 0;
}

static void leave_raw_mode(struct attach *a)
{
	if (a->is_raw)
		(void)tcsetattr(STDIN_FILENO, TCSADRAIN, &a->old_mode);
	a->is_raw = false;
}

static bool terminal_size(json_t **ret)
{
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 &&
	    ioctl(STDIN_FILENO, TIOCGWINSZ, &size) < 0)
		return false;
	if (size.ws_row == 0 || size.ws_col == 0)
		return false;
	*ret = json_pack("{s:i, s:i}", "rows", MIN(size.ws_row, 1000), "cols",
	                 MIN(size.ws_col, 1000));
	return true;
}

static int send_text(struct attach *a, json_t *message)
{
	auto_free char *text = json_dumps(message, JSON_COMPACT);

	json_decref(message);
	return http_client_ws_send(remote_client(a->remote), WS_TEXT, text, strlen(text));
}

static int send_size(struct attach *a)
{
	json_t *size;

	return terminal_size(&size) ? send_text(a, json_pack("{s:o}", "resize", size)) : 0;
}

static int on_window_change(struct attach *a)
{
	struct signalfd_siginfo info;

	return read(a->signal_fd, &info, sizeof(info)) == sizeof(info) ? send_size(a) : 0;
}

static int on_keys(struct attach *a)
{
	char keys[KEYS_AT_ONCE];
	ssize_t n = read(STDIN_FILENO, keys, sizeof(keys));

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	if (n > 0)
		return http_client_ws_send(remote_client(a->remote), WS_BINARY, keys, (size_t)n);
	a->has_stdin = false;
	return send_text(a, json_pack("{s:b}", "eof", 1));
}

static int on_text(struct attach *a, const char *data, size_t len, struct err *err)
{
	auto_json json_t *event = NULL;
	const char *message;
	int r = json_parse(data, len, &event, err);

	if (r < 0)
		return r;
	message = command_text(json_object_get(event, "error"), "message");
	if (*message)
		(void)err_set(&a->refusal, ERR_INTERNAL, 0, "%s", message);
	if (json_object_get(event, "exited"))
		a->exec = json_incref(json_object_get(event, "exited"));
	return 0;
}

/* Takes all messages that are there. 1: the session is over. */
static int on_messages(struct attach *a, struct err *err)
{
	for (;;) {
		enum ws_opcode op;
		const char *data;
		size_t len;
		int r = http_client_ws_recv(remote_client(a->remote), /* wait= */ false, &op, &data,
		                            &len);

		if (r == -EAGAIN || r == -EINTR)
			return 0;
		if (r == 0 && a->exec)
			return 1;
		if (r <= 0 && a->refusal.code != ERR_NONE) {
			*err = a->refusal;
			return -EPROTO;
		}
		if (r <= 0)
			return err_set(err, ERR_UNAVAILABLE, -r,
			               "the connection broke; the command goes on inside");
		if (op == WS_TEXT)
			r = on_text(a, data, len, err);
		else if (fd_write_all(STDOUT_FILENO, data, len) < 0)
			r = err_set(err, ERR_INTERNAL, EPIPE, "cannot write to the terminal");
		if (r < 0)
			return r;
	}
}

static int talk(struct attach *a, struct err *err)
{
	int r = send_size(a);

	while (r == 0) {
		struct pollfd fds[] = {
			{http_client_fd(remote_client(a->remote)), POLLIN, 0},
			{a->signal_fd, POLLIN, 0},
			{a->has_stdin ? STDIN_FILENO : -1, POLLIN, 0},
		};

		r = on_messages(a, err);
		if (r != 0)
			return r;
		if (poll(fds, ARRAY_SIZE(fds), -1) < 0)
			continue;
		if (fds[1].revents)
			r = on_window_change(a);
		if (r == 0 && fds[2].revents)
			r = on_keys(a);
	}
	/* A send that fails means that the server has closed: what it said last is still to read.
	 */
	r = on_messages(a, err);
	return r == 0 ? err_set(err, ERR_UNAVAILABLE, 0, "the connection broke") : r;
}

static int watch_window(struct attach *a, struct err *err)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGWINCH);
	(void)pthread_sigmask(SIG_BLOCK, &set, NULL);
	a->signal_fd = signalfd(-1, &set, SFD_CLOEXEC);
	return a->signal_fd < 0 ? err_set(err, ERR_INTERNAL, errno, "cannot watch the window") : 0;
}

/* Starts the exec; *ret_id is for free(). */
static int start(const struct session *s, char **ret_id, struct err *err)
{
	auto_free char *path = remote_path("sandboxes", s->sandbox, "execs");
	auto_json json_t *reply = NULL;
	json_t *size;
	int r;

	(void)json_object_set_new(s->body, "pty", terminal_size(&size) ? size : json_object());
	(void)json_object_set_new(s->body, "detached", json_true());
	r = remote_call(s->remote, "POST", path, s->body, &reply, err);
	if (r < 0)
		return r;
	*ret_id = xstrdup(command_text(json_object_get(reply, "exec"), "id"));
	return 0;
}

int attach_run(struct session *s, struct err *err)
{
	struct attach a = {.remote = s->remote, .signal_fd = -1, .has_stdin = s->wants_stdin};
	auto_free char *exec_id = NULL;
	auto_free char *path = NULL;
	int r = start(s, &exec_id, err);

	if (r < 0) {
		(void)text_fail(err);
		return session_start_status(err);
	}
	interrupt_aim(s->interrupt, s->remote, s->sandbox, exec_id);
	path = remote_path("sandboxes", s->sandbox, "execs", exec_id, "attach");
	r = watch_window(&a, err);
	if (r == 0)
		r = remote_begin_ws(s->remote, path, err);
	if (r == 0)
		r = enter_raw_mode(&a, err);
	if (r == 0)
		r = talk(&a, err);
	leave_raw_mode(&a);
	auto_closep(&a.signal_fd);
	if (r > 0)
		r = session_tell_end(a.exec);
	json_decref(a.exec);
	return r;
}
