// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The interface of ports for the rest of src/sandbox. */
#include "sandbox/network/port.h"

/* port.c: part of the sandbox's row. */
void port_rows_to_json(const struct sandbox *s, struct json_writer *w);
must_check int port_rows_load(struct sandbox *s, const json_t *rows);
uint64_t port_expires_us(const struct sandbox *s, uint16_t number); /* wall clock; 0 = never */

/* port_connection.c: cuts those to one port, or to all (0); or those that came by a token. */
void port_connection_cut_all(struct sandbox *s, uint16_t number);
void port_connection_cut_visits(struct sandbox *s, uint16_t number);
