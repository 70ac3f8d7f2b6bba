// SPDX-License-Identifier: Apache-2.0
#include "member/peers/peer_tls.h"

#include "member/papers/node_certificate.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <string.h>

DEFINE_FREEP(X509, X509_free)
DEFINE_FREEP(EVP_PKEY, EVP_PKEY_free)

struct peer_tls {
	SSL_CTX *ctx;
};

static bool trust(X509 *authority, void *arg)
{
	return X509_STORE_add_cert(arg, authority) == 1;
}

static bool set_up(SSL_CTX *ctx, EVP_PKEY *key, X509 *certificate, const char *authorities)
{
	if (SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) != 1 ||
	    SSL_CTX_use_certificate(ctx, certificate) != 1 ||
	    SSL_CTX_use_PrivateKey(ctx, key) != 1 || SSL_CTX_check_private_key(ctx) != 1 ||
	    !node_certificate_each(authorities, trust, SSL_CTX_get_cert_store(ctx)) ||
	    SSL_CTX_set_num_tickets(ctx, 0) != 1)
		return false;
	(void)SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
	(void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	(void)SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE |
	                                    SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
	                                    SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	SSL_CTX_set_verify_depth(ctx, 1);
	return true;
}

int peer_tls_new(const char *key_pem, const char *certificate_pem, const char *authority_pem,
                 struct peer_tls **ret, struct err *err)
{
	auto_call(EVP_PKEY_freep) EVP_PKEY *key = node_certificate_read_key(key_pem);
	auto_call(X509_freep) X509 *certificate = node_certificate_read(certificate_pem);
	SSL_CTX *ctx = SSL_CTX_new(TLS_method());

	ERR_clear_error();
	if (!key || !certificate || !ctx || !set_up(ctx, key, certificate, authority_pem)) {
		SSL_CTX_free(ctx);
		return err_set(err, ERR_INTERNAL, EINVAL,
		               "cannot read the node's certificate or its key");
	}
	*ret = xnew0(struct peer_tls);
	(*ret)->ctx = ctx;
	return 0;
}

void peer_tls_free(struct peer_tls *tls)
{
	if (!tls)
		return;
	SSL_CTX_free(tls->ctx);
	free(tls);
}

int peer_tls_start(struct peer_tls *tls, struct transport *t, bool is_server)
{
	t->ssl = SSL_new(tls->ctx);
	if (!t->ssl || SSL_set_fd(t->ssl, t->fd) != 1)
		return -ENOMEM;
	if (is_server)
		SSL_set_accept_state(t->ssl);
	else
		SSL_set_connect_state(t->ssl);
	return 0;
}

int peer_tls_name(const struct transport *t, const char *cluster_id, char *ret, size_t size)
{
	X509 *certificate = SSL_get0_peer_certificate(t->ssl);

	if (!certificate || SSL_get_verify_result(t->ssl) != X509_V_OK)
		return -EACCES;
	return node_certificate_name(certificate, cluster_id, ret, size);
}

void peer_tls_why(const struct transport *t, char *ret, size_t size)
{
	long result = t->ssl ? SSL_get_verify_result(t->ssl) : X509_V_OK;
	const char *reason = ERR_reason_error_string(ERR_peek_error());

	(void)snprintf(ret, size, "%s",
	               result != X509_V_OK ? X509_verify_cert_error_string(result)
	               : reason            ? reason
	                                   : "");
}
