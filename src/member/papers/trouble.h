// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What can be wrong between a node and its cluster: a closed list, each with a code for programs,
 * and the command or the setting that repairs it.
 */
#include "base/err.h"

#include <stdbool.h>

enum trouble {
	TROUBLE_NONE,
	TROUBLE_NOT_JOINED,
	TROUBLE_STARTING,    /* nothing is wrong: no beat was answered yet */
	TROUBLE_SETTING,     /* cluster.postgres cannot be used */
	TROUBLE_NAME,        /* a host of it has no address */
	TROUBLE_UNREACHABLE, /* or it does not answer */
	TROUBLE_UNTRUSTED,   /* its certificate */
	TROUBLE_NO_TLS,      /* it speaks none, and the setting wants it */
	TROUBLE_REFUSED,     /* user and password */
	TROUBLE_NO_DATABASE,
	TROUBLE_STANDBY,   /* no server of the setting takes writes */
	TROUBLE_NO_SCHEMA, /* no cluster was made in this database */
	TROUBLE_NO_RIGHTS,
	TROUBLE_FOREIGN, /* another cluster's */
	TROUBLE_OLD,     /* this program, for this schema */
	TROUBLE_BEHIND,  /* the schema, for this program */
	TROUBLE_REMOVED, /* the node is unknown there */
	TROUBLE_INVITATION_UNKNOWN,
	TROUBLE_INVITATION_USED,
	TROUBLE_INVITATION_EXPIRED,
	TROUBLE_NO_NODE,  /* of that name */
	TROUBLE_IN_USE,   /* a node that is to be removed */
	TROUBLE_TAKEN,    /* name or address are another node's */
	TROUBLE_UNSIGNED, /* nobody has signed its certificate */
	TROUBLE_FORGED,   /* the certificate is not the cluster's */
	TROUBLE_ENDING,   /* the node's certificate, soon */
	TROUBLE_ENDED,
	TROUBLE_UNRENEWED,  /* who signs does not renew it */
	TROUBLE_SUPERSEDED, /* somebody else was given the one that follows it */
	TROUBLE_SKEW,       /* clocks differ */
	TROUBLE_DATABASE,   /* an error that has no row of its own */
	/* Of the store of objects. */
	TROUBLE_STORE_SETTING,
	TROUBLE_STORE_UNREACHABLE, /* it does not answer, or with an error of its own */
	TROUBLE_STORE_UNTRUSTED,   /* its certificate */
	TROUBLE_STORE_MISSING,     /* no such bucket or directory */
	TROUBLE_STORE_KEYS,        /* its access keys */
	TROUBLE_STORE_RIGHTS,
	TROUBLE_STORE_REGION,
	TROUBLE_STORE_CLOCK,
	TROUBLE_STORE_FULL,
	TROUBLE_STORE_DAMAGED, /* what it gives is not what was stored */
	TROUBLE_STORE_KEYLESS,
	TROUBLE_STORE_NONE,
	TROUBLE_STORE_ABSENT, /* it has no such object */
	TROUBLE_STORE_HELD,   /* too much of it is named by no row */
	TROUBLE_COUNT
};

const char *trouble_code(enum trouble t); /* "database_unreachable" */
const char *trouble_hint(enum trouble t);
/* A fault in an answer by its SQLSTATE. */
enum trouble trouble_of_state(const char *state);
/* What libpq says about a connection, with PQERRORS_VERBOSE. */
enum trouble trouble_of_connection(const char *message);
/* The first line of a message of libpq's without the state that is in it; the caller frees it. */
char *trouble_line(const char *message);
/* Fills err with the code of the API, the sentence and the hint; err->field is trouble_code(). */
int trouble_set(struct err *err, enum trouble t, const char *fmt, ...) printf_like(3, 4);
