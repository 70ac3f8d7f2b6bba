// SPDX-License-Identifier: Apache-2.0
/*
 * cloche-vmm: the first process of a vm's confinement, and QEMU's parent. It starts QEMU,
 * configures the guest (SETUP), carries connections to the agent in it (line.h), and at the end its
 * exit code says how the machine ended (orders.h). It lives as long as the machine, so the stream
 * of bytes into the guest never breaks, whatever happens to gateway and broker.
 *
 * It runs in the same confinement as QEMU and has no more rights. QEMU and the guest are not
 * trusted: records are parsed within bounds, and QEMU's output is only searched for a few words. If
 * they lie, the worst result is a wrong report of how this machine ended.
 *
 *	starting --HERE--> told --READY--> serving --> QEMU ends
 *	loading --RESUME----^ (a copy of a machine that was saved)
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/log.h"
#include "vmm/card.h"
#include "vmm/control.h"
#include "vmm/line.h"
#include "vmm/orders.h"
#include "vmm/qemu.h"
#include "vmm/qmp.h"
#include "vmm/save.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define TAIL_SIZE 8192
#define PANIC     "Kernel panic"

/* The last bytes of an output. */
struct tail {
	struct vmm *vmm;
	int fd;
	struct loop_io *io;
	size_t len;
	char text[TAIL_SIZE + 1];
};

struct vmm {
	struct vmm_orders orders;
	struct loop *loop;
	struct qemu qemu;
	struct line line;
	struct control control;
	struct card card;
	struct qmp qmp;
	struct save save;
	struct tail console, words;
	struct loop_child *child;
	struct loop_timer *boot;
	bool is_told; /* who it is */
	bool is_serving;
	bool is_reset; /* so QEMU said */
};

/* The line that gives the reason, or the last one, for a person. */
static const char *last_line(struct tail *t)
{
	char *end = t->text + t->len, *start = strstr(t->text, PANIC);

	if (start)
		*strchrnul(start, '\n') = '\0';
	if (start)
		return start;
	while (end > t->text && (end[-1] == '\n' || end[-1] == '\r'))
		*--end = '\0';
	start = strrchr(t->text, '\n');
	return start ? start + 1 : t->text;
}

_Noreturn static void fail(struct vmm *v, const struct err *err, enum vmm_exit code)
{
	if (!v->is_serving)
		(void)!fd_write_all(VMM_FD_STATUS, err, sizeof(*err));
	_exit((int)code); /* and the kernel ends QEMU: this is pid 1 of its namespace */
}

_Noreturn static void fail_boot(struct vmm *v, const char *what, enum vmm_exit code)
{
	const char *said = v->words.len > 0 ? last_line(&v->words) : last_line(&v->console);
	struct err err;

	/* ENODEV tells the engine to try again without KVM. */
	(void)err_set(&err, ERR_INTERNAL, code == VMM_EXIT_KVM ? ENODEV : 0, "%s%s%.200s", what,
	              *said ? ": " : "", said);
	fail(v, &err, code);
}

static void tail_add(struct tail *t, const char *bytes, size_t n)
{
	if (n > TAIL_SIZE / 2) {
		bytes += n - TAIL_SIZE / 2;
		n = TAIL_SIZE / 2;
	}
	if (t->len + n > TAIL_SIZE) {
		memmove(t->text, t->text + TAIL_SIZE / 2, t->len - TAIL_SIZE / 2);
		t->len -= TAIL_SIZE / 2;
	}
	for (size_t i = 0; i < n; i++) /* a NUL would hide what follows */
		t->text[t->len++] = bytes[i] ? bytes[i] : ' ';
	t->text[t->len] = '\0';
}

/* What QEMU prints when KVM gives up on a guest: the first on x86_64, the second elsewhere. */
static bool is_of_kvm(const char *words)
{
	return strstr(words, "KVM internal error") || strstr(words, "error: kvm run failed");
}

static void on_tail(struct loop *loop, uint32_t events, void *arg)
{
	struct tail *t = arg;
	char bytes[1024];
	ssize_t n = read(t->fd, bytes, sizeof(bytes));

	(void)loop;
	(void)events;
	if (n > 0)
		tail_add(t, bytes, (size_t)n);
	else if (n == 0 || (errno != EAGAIN && errno != EINTR))
		loop_io_removep(&t->io);
	/* QEMU then stops and waits for a debugger, so we end it. */
	if (t == &t->vmm->words && is_of_kvm(t->text))
		fail_boot(t->vmm, "this host's KVM cannot run the guest", VMM_EXIT_KVM);
}

static int tail_open(struct vmm *v, struct tail *t, int fd, struct err *err)
{
	int r;

	t->vmm = v;
	t->fd = fd;
	r = loop_io_add(v->loop, fd, EPOLLIN, on_tail, t, &t->io);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot watch QEMU's words") : 0;
}

static enum vmm_exit judge_end(const struct vmm *v, int wait_status)
{
	if (!WIFEXITED(wait_status) || WEXITSTATUS(wait_status) != 0)
		return VMM_EXIT_QEMU;
	if (strstr(v->console.text, PANIC))
		return VMM_EXIT_PANIC;
	return v->is_reset ? VMM_EXIT_RESET : VMM_EXIT_OFF;
}

static void on_qemu_end(struct loop *loop, int wait_status, void *arg)
{
	struct vmm *v = arg;

	/* Its last output is still in the sockets. */
	for (int i = 0; i < 64 && (v->console.io || v->qmp.io || v->words.io); i++) {
		if (v->console.io)
			on_tail(loop, 0, &v->console);
		if (v->qmp.io)
			qmp_read(&v->qmp);
		if (v->words.io)
			on_tail(loop, 0, &v->words);
	}
	fail_boot(v, "the machine ended before its agent served", judge_end(v, wait_status));
}

static void on_boot_timeout(struct loop *loop, void *arg)
{
	const struct vmm *v = arg;

	(void)loop;
	fail_boot(arg, "the machine's agent did not serve in time",
	          v->orders.is_kvm ? VMM_EXIT_KVM : VMM_EXIT_OWN);
}

static int send_setup(struct vmm *v)
{
	auto_call(buf_done) struct buf text = BUF_INIT(PORT_TEXT_MAX);
	struct port_setup s = {.has_machine_id = true,
	                       .has_seed = true,
	                       .has_caps = true,
	                       .clock_us = clock_wall_us(),
	                       .open_files = v->orders.open_files,
	                       .pids = v->orders.pids,
	                       .caps = v->orders.caps_of_root};
	int r;

	(void)snprintf(s.hostname, sizeof(s.hostname), "%s", v->orders.hostname);
	random_bytes(s.machine_id, sizeof(s.machine_id));
	random_bytes(s.seed, sizeof(s.seed));
	r = port_setup_print(&s, &text);
	return r < 0 ? r : line_send_control(&v->line, PORT_SETUP, text.data, text.len);
}

static void set_up(struct vmm *v)
{
	v->is_told = true;
	if (send_setup(v) < 0)
		fail_boot(v, "cannot tell the machine who it is", VMM_EXIT_OWN);
}

static void serve(struct vmm *v)
{
	struct err err;

	if (line_listen(&v->line, VMM_FD_LISTEN, &err) < 0)
		fail(v, &err, VMM_EXIT_OWN);
	loop_timer_set(v->boot, UINT64_MAX);
	v->is_serving = true;
	(void)!write(VMM_FD_STATUS, "1", 1);
	(void)close(VMM_FD_STATUS);
}

static void on_card_aside(const struct err *err, void *arg)
{
	struct vmm *v = arg;

	if (err)
		save_fail(&v->save, err);
	else
		save_on_quiesced(&v->save);
}

/* The guest's programs are frozen now, so they do not see the card go. */
static void on_quiesced(struct vmm *v)
{
	if (save_has_devices(&v->save))
		card_set_aside(&v->card, on_card_aside);
	else
		save_on_quiesced(&v->save);
}

static void on_control(enum port_kind kind, const char *text, size_t len, void *arg)
{
	struct vmm *v = arg;
	struct port_usage usage;
	struct err err;

	if (kind == PORT_HERE && !v->is_serving)
		set_up(v);
	if (kind == PORT_QUIESCED)
		on_quiesced(v);
	if (kind == PORT_READY && v->is_serving)
		card_on_ready(&v->card);
	if (kind == PORT_FAILED && v->is_serving)
		card_on_failed(&v->card, text, len);
	if (kind == PORT_USED && port_usage_parse(text, len, &usage, &err) == 0)
		control_answer_usage(&v->control, &usage);
	if (kind == PORT_READY && !v->is_serving)
		serve(v);
	if (kind == PORT_FAILED && !v->is_serving) {
		(void)err_set(&err, ERR_INTERNAL, 0, "the machine's init: %.*s",
		              (int)MIN(len, (size_t)200), text);
		fail(v, &err, VMM_EXIT_PANIC);
	}
}

static void on_broken(void *arg)
{
	fail_boot(arg, "the machine sent what is no record", VMM_EXIT_LINK);
}

static const struct line_ops line_ops = {.on_control = on_control, .on_broken = on_broken};

static void on_event(const char *line, void *arg)
{
	struct vmm *v = arg;

	if (strstr(line, "\"guest-reset\""))
		v->is_reset = true;
	card_on_event(&v->card, line);
	/* A copy is completely loaded and runs. */
	if (v->orders.is_copy && !v->is_told && strstr(line, "\"RESUME\""))
		set_up(v);
}

static void answer(const struct err *err, void *arg)
{
	struct vmm *v = arg;

	control_answer(&v->control, err);
}

static void ask_guest(struct vmm *v, enum port_kind kind)
{
	struct err err;

	if (line_send_control(&v->line, kind, NULL, 0) == 0)
		return;
	(void)err_set(&err, ERR_UNAVAILABLE, 0, "its agent takes no more");
	answer(&err, v);
}

static void on_ask(const struct vmm_ask *ask, int fd, void *arg)
{
	struct vmm *v = arg;
	struct err err;

	switch ((enum vmm_ask_kind)ask->kind) {
	case VMM_ASK_SAVE:
		save_begin(&v->save, fd);
		return;
	case VMM_ASK_PLUG:
		card_plug(&v->card, fd, ask->has_ip6 != 0);
		return;
	case VMM_ASK_PULL:
		card_pull(&v->card);
		break;
	case VMM_ASK_USAGE:
		ask_guest(v, PORT_USAGE);
		break;
	case VMM_ASK_OFF:
		ask_guest(v, PORT_POWEROFF);
		break;
	default:
		(void)err_set(&err, ERR_UNSUPPORTED, 0,
		              "this machine's cloche-vmm is an older one");
		answer(&err, v);
	}
	if (fd >= 0)
		(void)close(fd);
}

static void on_over(uint32_t kind, void *arg)
{
	struct vmm *v = arg;

	if (kind == VMM_ASK_SAVE) {
		save_end(&v->save);
		card_put_back(&v->card);
	}
	if (kind == VMM_ASK_PLUG || kind == VMM_ASK_PULL)
		card_forget(&v->card);
}

static const struct control_ops control_ops = {.on_ask = on_ask, .on_over = on_over};

static int start(struct vmm *v, struct err *err)
{
	int r = qemu_start(&v->orders, &v->qemu, err);

	for (uint32_t i = 0; i < v->orders.n_groups; i++)
		(void)close(VMM_FD_GROUPS + (int)i);
	if (r == 0)
		r = loop_new(&v->loop, err);
	if (r == 0)
		r = tail_open(v, &v->console, v->qemu.console_fd, err);
	if (r == 0)
		r = qmp_open(&v->qmp, v->loop, v->qemu.qmp_fd, on_event, v, err);
	if (r == 0)
		r = tail_open(v, &v->words, v->qemu.words_fd, err);
	if (r == 0)
		r = line_open(&v->line, v->loop, v->qemu.port_fd, &line_ops, v, err);
	if (r == 0)
		r = control_open(&v->control, v->loop, VMM_FD_CONTROL, &control_ops, v, err);
	if (r < 0)
		return r;
	card_init(&v->card, &v->qmp, &v->line, answer, v);
	r = loop_child_add(v->loop, v->qemu.pidfd, on_qemu_end, v, &v->child);
	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot watch QEMU");
	save_init(&v->save, v->loop, &v->line, &v->qmp, &v->control);
	v->boot = loop_timer_new(v->loop, on_boot_timeout, v);
	loop_timer_set_in(v->boot, v->orders.boot_max_us);
	return 0;
}

int main(void)
{
	static struct vmm v;
	struct err err = {0};
	int r;

	log_init("vmm", LOG_WARN);
	(void)prctl(PR_SET_NAME, "cloche-vmm"); /* exec by fd would leave it named after the fd */
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||
	    close_range(VMM_FD_ORDERS, ~0U, CLOSE_RANGE_CLOEXEC) < 0 ||
	    signal(SIGPIPE, SIG_IGN) == SIG_ERR ||
	    fd_read_all(VMM_FD_ORDERS, &v.orders, sizeof(v.orders)) < 0)
		return VMM_EXIT_OWN;
	(void)close(VMM_FD_ORDERS);
	r = start(&v, &err);
	if (r == 0)
		r = loop_run(v.loop);
	if (r < 0)
		fail(&v, &err, VMM_EXIT_OWN);
	return VMM_EXIT_OWN;
}
