// SPDX-License-Identifier: Apache-2.0
/*
 * OpenSSL's own socket BIO writes with write(), which raises SIGPIPE when the peer has gone. The
 * BIO here sends with MSG_NOSIGNAL instead, so that programs which link this need not change their
 * signals.
 */
#include "http/tls.h"

#include "base/buf.h"

#include <arpa/inet.h>
#include <assert.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <sys/socket.h>

struct tls_context {
	SSL_CTX *ssl;
};

/* The BIO's data: the socket, and bytes that were read from it before TLS began. */
struct source {
	int fd;
	struct buf first;
};

static int bio_destroy(BIO *bio)
{
	struct source *s = BIO_get_data(bio);

	if (s)
		buf_done(&s->first);
	free(s);
	BIO_set_data(bio, NULL);
	return 1;
}

static int bio_result(BIO *bio, ssize_t n, int how)
{
	BIO_clear_retry_flags(bio);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		BIO_set_flags(bio, how | BIO_FLAGS_SHOULD_RETRY);
	return (int)n;
}

static int bio_write(BIO *bio, const char *data, int len)
{
	const struct source *s = BIO_get_data(bio);

	return bio_result(bio, send(s->fd, data, (size_t)len, MSG_NOSIGNAL), BIO_FLAGS_WRITE);
}

static int bio_read(BIO *bio, char *data, int size)
{
	struct source *s = BIO_get_data(bio);
	ssize_t n = (ssize_t)MIN(s->first.len, (size_t)size);

	if (n > 0) {
		memcpy(data, s->first.data, (size_t)n);
		buf_consume(&s->first, (size_t)n);
		return bio_result(bio, n, BIO_FLAGS_READ);
	}
	buf_done(&s->first);
	n = recv(s->fd, data, (size_t)size, 0);
	if (n == 0)
		BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
	return bio_result(bio, n, BIO_FLAGS_READ);
}

static long bio_ctrl(BIO *bio, int cmd, long number, void *ptr)
{
	(void)number;
	(void)ptr;
	if (cmd == BIO_CTRL_EOF)
		return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0;
	return cmd == BIO_CTRL_FLUSH;
}

/* One for the process, never freed: sessions of all contexts point at it. */
static BIO_METHOD *bio_method(void)
{
	static BIO_METHOD *method;

	if (method)
		return method;
	method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "cloche socket");
	if (!method)
		abort();
	(void)BIO_meth_set_write(method, bio_write);
	(void)BIO_meth_set_read(method, bio_read);
	(void)BIO_meth_set_ctrl(method, bio_ctrl);
	(void)BIO_meth_set_destroy(method, bio_destroy);
	return method;
}

void tls_last_error(char *text, size_t size)
{
	unsigned long code = ERR_peek_last_error();
	const char *reason = code ? ERR_reason_error_string(code) : NULL;

	(void)snprintf(text, size, "%s", reason ? reason : "");
	ERR_clear_error();
}

static int fail(struct err *err, const char *what, const char *path)
{
	char why[120];

	tls_last_error(why, sizeof(why));
	return err_set(err, ERR_INTERNAL, 0, "%s '%s': %s", what, path,
	               *why ? why : "unknown TLS error");
}

/* NULL with err set, as tls_context_new() has it. */
static struct tls_context *new_context(const SSL_METHOD *method, struct err *err)
{
	SSL_CTX *ssl = SSL_CTX_new(method);
	struct tls_context *ctx;

	if (!ssl) {
		(void)fail(err, "cannot make a TLS context for", "cloche");
		return NULL;
	}
	(void)SSL_CTX_set_min_proto_version(ssl, TLS1_2_VERSION);
	/* Renegotiation and compression are risks that nothing here needs. Idle connections free
	 * their buffers. */
	(void)SSL_CTX_set_options(ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
	                                       SSL_OP_CIPHER_SERVER_PREFERENCE);
	(void)SSL_CTX_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE |
	                                    SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
	                                    SSL_MODE_RELEASE_BUFFERS);
	ctx = xnew0(struct tls_context);
	ctx->ssl = ssl;
	return ctx;
}

void tls_context_free(struct tls_context *ctx)
{
	if (!ctx)
		return;
	SSL_CTX_free(ctx->ssl);
	free(ctx);
}
DEFINE_FREEP(struct tls_context, tls_context_free)

int tls_context_new(const char *cert_path, const char *key_path, struct tls_context **ret,
                    struct err *err)
{
	auto_call(tls_context_freep) struct tls_context *ctx =
		new_context(TLS_server_method(), err);

	if (!ctx)
		return -EINVAL;
	if (SSL_CTX_use_certificate_chain_file(ctx->ssl, cert_path) != 1)
		return fail(err, "cannot use the TLS certificate", cert_path);
	if (SSL_CTX_use_PrivateKey_file(ctx->ssl, key_path, SSL_FILETYPE_PEM) != 1)
		return fail(err, "cannot use the TLS key", key_path);
	if (SSL_CTX_check_private_key(ctx->ssl) != 1)
		return fail(err, "the certificate does not belong to the TLS key", key_path);
	*ret = take_ptr(ctx);
	return 0;
}

int tls_context_new_bare(struct tls_context **ret, struct err *err)
{
	struct tls_context *ctx = new_context(TLS_server_method(), err);

	if (!ctx)
		return -EINVAL;
	*ret = ctx;
	return 0;
}

struct ssl_ctx_st *tls_context_ssl(struct tls_context *ctx)
{
	return ctx->ssl;
}

int tls_context_trust(struct tls_context *ctx, const char *ca_path, struct err *err)
{
	return SSL_CTX_load_verify_file(ctx->ssl, ca_path) == 1
	               ? 0
	               : fail(err, "cannot use the certificates in", ca_path);
}

int tls_context_new_client(const char *ca_path, struct tls_context **ret, struct err *err)
{
	auto_call(tls_context_freep) struct tls_context *ctx =
		new_context(TLS_client_method(), err);

	if (!ctx)
		return -EINVAL;
	SSL_CTX_set_verify(ctx->ssl, SSL_VERIFY_PEER, NULL);
	if (ca_path && SSL_CTX_load_verify_file(ctx->ssl, ca_path) != 1)
		return fail(err, "cannot use the certificates in", ca_path);
	if (!ca_path && SSL_CTX_set_default_verify_paths(ctx->ssl) != 1)
		return fail(err, "cannot use the certificates of", "the system");
	*ret = take_ptr(ctx);
	return 0;
}

static int expect_name(SSL *ssl, const char *name)
{
	struct in6_addr address;

	if (inet_pton(AF_INET, name, &address) == 1 || inet_pton(AF_INET6, name, &address) == 1)
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name);
	SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	/* SSL_set_tlsext_host_name(), which casts const away without a word to the compiler */
	return SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
	                unconst(name)) == 1 &&
	       SSL_set1_host(ssl, name) == 1;
}

int tls_session_new(struct tls_context *ctx, int fd, const char *server_name, struct ssl_st **ret,
                    struct err *err)
{
	SSL *ssl = SSL_new(ctx->ssl);
	BIO *bio = ssl ? BIO_new(bio_method()) : NULL;
	struct source *source;

	if (!bio || (server_name && !expect_name(ssl, server_name))) {
		BIO_free(bio);
		SSL_free(ssl);
		return fail(err, "cannot start TLS with", server_name ? server_name : "a client");
	}
	source = xnew0(struct source);
	source->fd = fd;
	BIO_set_data(bio, source);
	BIO_set_init(bio, 1);
	SSL_set_bio(ssl, bio, bio);
	if (server_name)
		SSL_set_connect_state(ssl);
	else
		SSL_set_accept_state(ssl);
	*ret = ssl;
	return 0;
}

int tls_session_feed(struct ssl_st *ssl, const void *data, size_t len)
{
	struct source *s = BIO_get_data(SSL_get_rbio(ssl));

	s->first.cap += len;
	return buf_append(&s->first, data, len);
}
