// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A vm's network card and the door behind it. A vm without a door has no card. With one, a tap in
 * the sandbox's net namespace is the host's end of its cable: all traffic there is redirected to
 * the door's sockets (card_rules.h), and nothing else can be reached.
 */
#include "engine/engine.h"

/* open_door(), close_door() and plug() of struct engine. */
must_check int card_open_door(struct guest *g, int ret_fds[DOOR_SOCKETS], struct err *err);
must_check int card_close_door(struct guest *g, struct err *err);
must_check int card_plug(struct guest *g, bool on, guest_plugged_fn fn, void *arg, struct err *err);
/* The machine runs again after it was stopped: does what its door needs. */
void card_go_on(struct guest *g);
