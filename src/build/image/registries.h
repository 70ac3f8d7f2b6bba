// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * The operator's table of registries, from the settings:
 *
 *	default      "HOST[:PORT][/PATH]": where names without a host are looked for
 *	mirrors      "HOST[:PORT]=URL": is asked before that host; in their order
 *	credentials  "HOST[:PORT]=USER:SECRET": for that host, the secret of that name which the
 *	             project keeps that pulls. Hosts with the same USER:SECRET are one registry with
 *	             the servers that give its tokens
 *
 * Every URL is https, but for http on this machine itself.
 */
#include "base/err.h"
#include "net/match/url.h"

#define REGISTRY_PORT 443

struct registries_config { /* borrowed; each may be NULL */
	const char *place;
	char **mirrors, **credentials; /* NULL-terminated */
};

/* As a setting is checked: the error names it. */
must_check int registries_check(const struct registries_config *c, struct err *err);
/* The mirror of the registry behind the first i ones; or NULL. The text behind the '='. */
const char *registries_mirror(const struct registries_config *c, const struct host *host,
                              uint16_t port, size_t i);
/* "USER:SECRET" for the registry, or NULL. */
const char *registries_credentials(const struct registries_config *c, const struct host *host,
                                   uint16_t port);
/* Whether the operator has named the host, so that it may have a private address. */
bool registries_has(const struct registries_config *c, const struct host *host);
