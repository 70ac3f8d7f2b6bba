// SPDX-License-Identifier: Apache-2.0
#include "daemon/gateway/settings_check.h"

#include "daemon/gateway/people.h"
#include "daemon/senders.h"
#include "daemon/wall.h"
#include "http/tls.h"
#include "secret/secret.h"

static int try_tls(const struct config *c, struct err *err)
{
	struct tls_context *tls = NULL;
	int r = c->tls_cert ? tls_context_new(c->tls_cert, c->tls_key, &tls, err) : 0;

	tls_context_free(tls);
	return r;
}

static int try_secrets_key(const struct config *c, struct err *err)
{
	struct master_keys keys = {0};
	int r = c->secrets_key_file ? master_keys_read(c->secrets_key_file, false, &keys, err) : 0;

	master_keys_done(&keys);
	return r;
}

static int try_senders(const struct config *c, struct err *err)
{
	struct senders senders = {0};
	int r = senders_read(&senders, c, err);

	senders_close(&senders);
	return r;
}

static int try_people(const struct config *c, struct err *err)
{
	struct people people = {0};
	int r = people_prepare(&people, c, err);

	people_close(&people);
	return r;
}

int settings_check(const struct config *c, struct err *err)
{
	static int (*const tries[])(const struct config *c, struct err *err) = {
		try_tls, try_secrets_key, try_senders, try_people, wall_check_settings};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(tries); i++)
		r = tries[i](c, err);
	return r;
}
