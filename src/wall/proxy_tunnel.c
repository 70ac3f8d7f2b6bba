// SPDX-License-Identifier: Apache-2.0
/*
 * After the change to WebSocket bytes pass unchanged, to the host that the request was judged for.
 * When one side ends, its last bytes are delivered, and the other side has a moment to end.
 */
#include "wall/proxy_private.h"

void proxy_begin_tunnel(struct proxy *p)
{
	p->has_reply = true;
	proxy_move(p, TUNNELLING, TUNNEL_US);
}

void proxy_end_tunnel(struct proxy *p)
{
	if (p->is_over)
		return;
	proxy_record(p, WALL_ALLOWED, "");
	proxy_finish(p);
}

static bool move(struct end *from, struct end *to)
{
	size_t n = MIN(from->in.len, buf_room(&to->out));

	if (n == 0 || buf_append(&to->out, from->in.data, n) < 0)
		return false;
	buf_consume(&from->in, n);
	return true;
}

static void pass_end(struct end *from, struct end *to)
{
	if (!from->is_eof || from->in.len > 0 || to->out.len > 0 || to->is_shut)
		return;
	transport_shutdown(&to->t);
	to->is_shut = true;
	loop_timer_set_in(to->proxy->timer, CLOSING_US);
}

bool proxy_tunnel(struct proxy *p)
{
	size_t before = p->guest.in.len;
	bool has_moved = move(&p->guest, &p->up);

	p->out_bytes += before - p->guest.in.len;
	has_moved |= move(&p->up, &p->guest);
	pass_end(&p->guest, &p->up);
	pass_end(&p->up, &p->guest);
	if (p->guest.is_shut && p->up.is_shut)
		proxy_end_tunnel(p);
	return has_moved;
}
