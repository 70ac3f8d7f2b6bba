// SPDX-License-Identifier: Apache-2.0
#include "wall/transport/secure.h"

#include "base/log.h"
#include "http/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <string.h>

struct secure {
	struct tls_context *guests, *servers;
	struct issuer *refusals;
	uint8_t secret[ISSUER_SECRET_SIZE];
};

/* Where distributions keep all certificates in one file; the first that exists is used. */
static const char *const stores[] = {
	"/etc/ssl/certs/ca-certificates.crt", /* Debian, Alpine, Arch */
	"/etc/pki/tls/certs/ca-bundle.crt",   /* Fedora */
	"/etc/ssl/ca-bundle.pem",             /* openSUSE */
};

/* Of two, the first that the other side has. */
static const unsigned char http1[] = "\x08http/1.1", h2[] = "\x02h2";
static const unsigned char http1_or_h2[] = "\x08http/1.1\x02h2",
			   h2_or_http1[] = "\x02h2\x08http/1.1";
#define HTTP1_LEN (sizeof(http1) - 1)
#define H2_LEN    (sizeof(h2) - 1)
#define BOTH_LEN  (HTTP1_LEN + H2_LEN)

static int on_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                   const unsigned char *in, unsigned in_len, void *arg)
{
	const unsigned char *wanted = SSL_get_app_data(ssl);
	unsigned char *chosen;

	(void)arg;
	if (SSL_select_next_proto(&chosen, out_len, wanted, BOTH_LEN, in, in_len) !=
	    OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*out = chosen;
	return SSL_TLSEXT_ERR_OK;
}

static void forget_sessions(SSL_CTX *ctx)
{
	(void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	(void)SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET);
	(void)SSL_CTX_set_num_tickets(ctx, 0);
}

/* Uses $SSL_CERT_FILE, as OpenSSL itself does, or the first store that exists. */
static int new_verifier(struct tls_context **ret, struct err *err)
{
	const char *own = getenv("SSL_CERT_FILE");

	if (own)
		return tls_context_new_client(own, ret, err);
	for (size_t i = 0; i < ARRAY_SIZE(stores); i++)
		if (access(stores[i], R_OK) == 0)
			return tls_context_new_client(stores[i], ret, err);
	log_warn("wall.no_certificates", "first='%s'", stores[0]);
	return tls_context_new_client(NULL, ret, err);
}

/* OpenSSL looks up algorithms at their first use, which takes longer than making several issuers.
 * This one is the first, so that no create waits for it. */
static int make_refusals(struct secure *s, struct err *err)
{
	if (issuer_new_of_refusals(s->secret, &s->refusals) < 0)
		return err_set(err, ERR_INTERNAL, 0, "cannot make issuers of certificates");
	return 0;
}

int secure_new(const char *ca_file, const uint8_t secret[ISSUER_SECRET_SIZE], struct secure **ret,
               struct err *err)
{
	struct secure *s = xnew0(struct secure);
	int r = tls_context_new_bare(&s->guests, err);

	memcpy(s->secret, secret, sizeof(s->secret));
	if (r == 0)
		r = new_verifier(&s->servers, err);
	if (r == 0 && ca_file)
		r = tls_context_trust(s->servers, ca_file, err);
	if (r == 0 && SSL_CTX_set_alpn_protos(tls_context_ssl(s->servers), http1, HTTP1_LEN) != 0)
		r = err_set(err, ERR_INTERNAL, 0, "cannot ask servers for HTTP/1.1");
	if (r == 0)
		r = make_refusals(s, err);
	if (r < 0) {
		secure_free(s);
		return r;
	}
	SSL_CTX_set_alpn_select_cb(tls_context_ssl(s->guests), on_alpn, NULL);
	forget_sessions(tls_context_ssl(s->guests));
	forget_sessions(tls_context_ssl(s->servers));
	*ret = s;
	return 0;
}

void secure_free(struct secure *s)
{
	if (!s)
		return;
	tls_context_free(s->guests);
	tls_context_free(s->servers);
	issuer_free(s->refusals);
	explicit_bzero(s->secret, sizeof(s->secret));
	free(s);
}

int secure_make_issuer(const struct secure *s, const char *sandbox_id, struct issuer **ret)
{
	return issuer_new(s->secret, sandbox_id, ret);
}

struct issuer *secure_refusals(const struct secure *s)
{
	return s->refusals;
}

int secure_meet_guest(struct secure *s, struct transport *t, struct issuer *issuer,
                      const struct host *host, bool prefers_h2, const struct buf *first)
{
	const unsigned char *wanted = prefers_h2 ? h2_or_http1 : http1_or_h2;
	EVP_PKEY *key;
	struct err err;
	X509 *cert;
	int r = issuer_certify(issuer, host, &cert, &key);

	if (r == 0)
		r = transport_start_tls(t, s->guests, NULL, &err);
	if (r == 0 &&
	    (SSL_use_certificate(t->ssl, cert) != 1 || SSL_use_PrivateKey(t->ssl, key) != 1 ||
	     SSL_set_app_data(t->ssl, unconst(wanted)) != 1))
		r = -EINVAL;
	if (r == 0)
		r = tls_session_feed(t->ssl, first->data, first->len);
	return r;
}

int secure_meet_server(struct secure *s, struct transport *t, const struct host *host,
                       enum secure_offer offer)
{
	char name[HOST_SIZE];
	struct err err;
	int r;

	if (host->is_name)
		host_format(host, name);
	else
		address_format(&host->address, name);
	r = transport_start_tls(t, s->servers, name, &err);
	if (r == 0 && offer == SECURE_H2 && SSL_set_alpn_protos(t->ssl, h2, H2_LEN) != 0)
		r = -EINVAL;
	if (r == 0 && offer == SECURE_EITHER &&
	    SSL_set_alpn_protos(t->ssl, h2_or_http1, BOTH_LEN) != 0)
		r = -EINVAL;
	return r;
}

bool secure_is_h2(const struct transport *t)
{
	const unsigned char *name;
	unsigned len;

	if (!t->ssl || !SSL_is_init_finished(t->ssl))
		return false;
	SSL_get0_alpn_selected(t->ssl, &name, &len);
	return len == H2_LEN - 1 && memcmp(name, h2 + 1, len) == 0;
}

void secure_explain(const struct transport *t, bool is_guest, char why[SECURE_WHY_SIZE])
{
	long verified = t->ssl ? SSL_get_verify_result(t->ssl) : X509_V_OK;
	int reason = ERR_GET_REASON(ERR_peek_last_error());
	const char *words = ERR_reason_error_string(ERR_peek_last_error());

	if (!is_guest && verified != X509_V_OK)
		(void)snprintf(why, SECURE_WHY_SIZE, "its certificate: %s",
		               X509_verify_cert_error_string(verified));
	else if (is_guest && (reason == SSL_R_TLSV1_ALERT_UNKNOWN_CA ||
	                      reason == SSL_R_SSLV3_ALERT_BAD_CERTIFICATE ||
	                      reason == SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN))
		(void)snprintf(why, SECURE_WHY_SIZE, "the guest does not trust the sandbox's CA");
	else if (is_guest && reason == SSL_R_NO_APPLICATION_PROTOCOL)
		(void)snprintf(why, SECURE_WHY_SIZE,
		               "the guest speaks neither HTTP/1.1 nor HTTP/2");
	else if (!is_guest && reason == SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL)
		(void)snprintf(why, SECURE_WHY_SIZE, "the server does not speak HTTP/2");
	else if (t->ssl && words)
		(void)snprintf(why, SECURE_WHY_SIZE, "TLS: %s", words);
	else
		(void)snprintf(why, SECURE_WHY_SIZE, "%s",
		               is_guest ? "the guest broke the connection"
		                        : "the server broke the connection");
}
