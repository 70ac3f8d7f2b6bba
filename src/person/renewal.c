// SPDX-License-Identifier: Apache-2.0
#include "person/renewal.h"

#include "base/log.h"
#include "http/target.h"

#include <openssl/crypto.h>
#include <string.h>

#define AT_ONCE  16 /* questions of one look */
#define LOOKS    8  /* in an interval */
#define LOOK_US  (15 * SECOND_US)
#define FORM_MAX 16384

struct renewal {
	struct loop_timer *timer;
	struct provider *provider;
	struct person_sessions *sessions;
	uint64_t every_us;
};

struct asked {
	struct renewal *renewal;
	uint64_t number;
};

static void on_answer(const struct provider_answer *answer, void *arg)
{
	struct asked *asked = arg;
	struct person_sessions *ss = asked->renewal->sessions;
	struct person_session *s = person_session_by_number(ss, asked->number);
	const struct person_proof proof = {
		.claims = answer->claims,
		.token = answer->token,
		.refresh = json_string_value(json_object_get(answer->body, "refresh_token")),
	};

	free(asked);
	if (!s)
		return;
	if (answer->problem == LOGIN_DENIED)
		person_session_end(ss, s, "the provider");
	else if (answer->problem == LOGIN_FINE &&
	         (!answer->claims || person_session_is_of(ss, s, answer->token.subject)))
		person_session_renew(ss, s, &proof);
	else if (answer->problem == LOGIN_FINE)
		person_session_end(ss, s, "another person");
	else
		log_info("login.not_renewed", "problem=%s detail='%s'",
		         login_problem_word(answer->problem), answer->detail);
}

static void ask(struct person_session *s, void *arg)
{
	struct renewal *r = arg;
	auto_call(buf_done) struct buf form = BUF_INIT(FORM_MAX);
	struct asked *asked;
	char *refresh = NULL;

	person_session_refresh_token(r->sessions, s, &refresh);
	if (refresh && buf_append_str(&form, "grant_type=refresh_token&refresh_token=") == 0 &&
	    http_escape(&form, refresh) == 0) {
		asked = xnew0(struct asked);
		*asked = (struct asked){r, person_session_number(s)};
		provider_ask(r->provider,
		             &(struct provider_question){.endpoint = PROVIDER_TOKEN,
		                                         .form = buf_str(&form)},
		             on_answer, asked);
		OPENSSL_cleanse(form.data, form.len);
	}
	sealed_text_wipe(&refresh);
}

static void look(struct loop *loop, void *arg)
{
	struct renewal *r = arg;

	(void)loop;
	person_sessions_sweep(r->sessions, r->every_us, AT_ONCE, ask, r);
	loop_timer_set_in(r->timer, MIN(r->every_us / LOOKS, LOOK_US));
}

struct renewal *renewal_new(struct loop *loop, struct provider *provider,
                            struct person_sessions *sessions, uint64_t every_us)
{
	struct renewal *r = xnew0(struct renewal);

	*r = (struct renewal){.provider = provider, .sessions = sessions, .every_us = every_us};
	r->timer = loop_timer_new(loop, look, r);
	loop_timer_set_in(r->timer, 0);
	return r;
}

void renewal_free(struct renewal *r)
{
	if (r)
		loop_timer_free(r->timer);
	free(r);
}
