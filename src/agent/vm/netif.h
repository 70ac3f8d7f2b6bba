// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The network interfaces of a vm: loopback, and perhaps one card. */
#include "proto/port.h"

must_check int netif_up(const char *name);
/* Gives the card its addresses and the default routes; 0 where the setup has none. */
must_check int netif_configure(const struct port_setup *s, struct err *err);
bool netif_is_there(void); /* the card */
