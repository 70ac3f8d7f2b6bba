// SPDX-License-Identifier: Apache-2.0
/*
 * The parts of a sandbox. A part may use those above it in the table. So parts are made, and
 * adopted after a restart of the daemon, from first to last, and they are ended and freed from last
 * to first.
 *
 * An end may come at any time, and more than once: ending a part that does not exist does nothing.
 */
#include "sandbox/code/contexts.h"
#include "sandbox/exec/exec_private.h"
#include "sandbox/lifecycle/create_source.h"
#include "sandbox/lifecycle/lifecycle.h"
#include "sandbox/lifecycle/restorable.h"
#include "sandbox/lifecycle/results.h"
#include "sandbox/model/owner.h"
#include "sandbox/network/network.h"
#include "sandbox/network/ports.h"
#include "sandbox/usage/account.h"

static void free_owner(struct sandbox *s)
{
	list_remove(&s->link_untold);
}

static void end_link(struct sandbox *s)
{
	struct err err;

	if (!s->link)
		return;
	(void)sandbox_has_ended(s, &err);
	link_lose_channels(s->link, &err);
	link_free(take_ptr(s->link));
}

static void free_link(struct sandbox *s)
{
	link_free(s->link);
}

static void end_contexts(struct sandbox *s)
{
	struct err err;

	(void)sandbox_has_ended(s, &err);
	context_end_all(s, &err);
}

static void end_warm_up(struct sandbox *s)
{
	s->fleet->spares->end_warm_up(s);
}

static void free_execs(struct sandbox *s)
{
	exec_free_all(s);
	loop_job_free(s->exec_trim);
}

static void end_ports(struct sandbox *s)
{
	port_connection_cut_all(s, 0);
}

static void free_ports(struct sandbox *s)
{
	end_ports(s);
	free(s->ports);
}

static const struct sandbox_part {
	const char *name;
	void (*init)(struct sandbox *s);
	void (*on_adopt)(struct sandbox *s);
	void (*on_running)(struct sandbox *s);
	void (*on_end)(struct sandbox *s);
	void (*free)(struct sandbox *s);
} parts[] = {
	/* clang-format off */
	{"owner",      NULL,            owner_tell,         NULL,                NULL,           free_owner},
	{"account",    account_init,    NULL,               NULL,                NULL,           account_free},
	{"link",       NULL,            sandbox_make_link,  NULL,                end_link,       free_link},
	{"results",    NULL,            NULL,               NULL,                NULL,           results_collect_cancel},
	{"contexts",   NULL,            context_rejoin_all, NULL,                end_contexts,   context_free_all},
	{"idleness",   NULL,            NULL,               NULL,                sandbox_disturb,  sandbox_disturb},
	{"warm-up",    NULL,            NULL,               NULL,                end_warm_up,    end_warm_up},
	{"execs",      NULL,            exec_rejoin_all,    NULL,                exec_end_all,   free_execs},
	{"network",    NULL,            NULL,               NULL,                network_end,    network_free},
	{"directory",  NULL,            NULL,               NULL,                directory_end,  directory_end},
	{"source",     NULL,            NULL,               NULL,                fetch_end,      fetch_end},
	{"ports",      NULL,            NULL,               NULL,                end_ports,      free_ports},
	{"clocks",     clocks_init,     clocks_rejoin,      clocks_on_running,   clocks_end,     clocks_done},
	{"connection", connection_init, connection_rejoin,  NULL,                connection_end, connection_done},
	{"rollback",   NULL,            NULL,               rollback_on_running, NULL,           NULL},
	{"pause",      NULL,            pause_rejoin,       pause_on_running,    pause_cancel,   pause_done},
	{"fence",      NULL,            restorable_adopt,   restorable_on_running, restorable_cancel, restorable_free},
	{"end",        end_init,        NULL,               NULL,                NULL,           end_done},
	/* clang-format on */
};

void parts_init(struct sandbox *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (parts[i].init)
			parts[i].init(s);
}

void parts_adopt(struct sandbox *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (parts[i].on_adopt)
			parts[i].on_adopt(s);
}

void parts_on_running(struct sandbox *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (parts[i].on_running)
			parts[i].on_running(s);
}

void parts_end(struct sandbox *s)
{
	for (size_t i = ARRAY_SIZE(parts); i-- > 0;)
		if (parts[i].on_end)
			parts[i].on_end(s);
}

void parts_free(struct sandbox *s)
{
	for (size_t i = ARRAY_SIZE(parts); i-- > 0;)
		if (parts[i].free)
			parts[i].free(s);
}
