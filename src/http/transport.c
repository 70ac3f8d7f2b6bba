// SPDX-License-Identifier: Apache-2.0
#include "http/transport.h"

#include "http/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

void transport_init(struct transport *t, int fd)
{
	*t = (struct transport){.fd = fd, .read_wants = EPOLLIN, .write_wants = EPOLLOUT};
}

int transport_start_tls(struct transport *t, struct tls_context *ctx, const char *server_name,
                        struct err *err)
{
	return tls_session_new(ctx, t->fd, server_name, &t->ssl, err);
}

static ssize_t ssl_result(struct transport *t, int n, uint32_t *wants)
{
	if (n > 0)
		return n;
	switch (SSL_get_error(t->ssl, n)) {
	case SSL_ERROR_WANT_READ:
		*wants = EPOLLIN;
		return -EAGAIN;
	case SSL_ERROR_WANT_WRITE:
		*wants = EPOLLOUT;
		return -EAGAIN;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	case SSL_ERROR_SYSCALL:
		return errno ? -errno : -ECONNRESET;
	default: /* a broken record, a refused certificate, an end without close_notify */
		return -EPROTO;
	}
}

int transport_handshake(struct transport *t)
{
	ssize_t n;

	ERR_clear_error();
	errno = 0;
	t->write_wants = EPOLLOUT;
	n = ssl_result(t, SSL_do_handshake(t->ssl), &t->write_wants);
	return n > 0 ? 0 : n == 0 ? -EPIPE : (int)n;
}

ssize_t transport_read(struct transport *t, void *data, size_t size)
{
	ssize_t n;

	if (t->ssl) {
		ERR_clear_error();
		errno = 0;
		t->read_wants = EPOLLIN;
		return ssl_result(t, SSL_read(t->ssl, data, (int)MIN(size, (size_t)INT32_MAX)),
		                  &t->read_wants);
	}
	do
		n = recv(t->fd, data, size, 0);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

ssize_t transport_write(struct transport *t, const void *data, size_t len)
{
	ssize_t n;

	if (t->ssl) {
		ERR_clear_error();
		errno = 0;
		t->write_wants = EPOLLOUT;
		n = ssl_result(t, SSL_write(t->ssl, data, (int)MIN(len, (size_t)INT32_MAX)),
		               &t->write_wants);
		return n == 0 ? -EPIPE : n;
	}
	do
		n = send(t->fd, data, len, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

bool transport_has_pending(const struct transport *t)
{
	/* Without read-ahead OpenSSL holds one record at most. SSL_has_pending() would also count a
	 * record of which only a part has come. */
	return t->ssl && SSL_pending(t->ssl) > 0;
}

void transport_shutdown(struct transport *t)
{
	if (t->ssl) {
		ERR_clear_error();
		if (SSL_is_init_finished(t->ssl))
			(void)SSL_shutdown(
				t->ssl); /* sends close_notify; the peer's is not awaited */
	}
	(void)shutdown(t->fd, SHUT_WR);
}

void transport_close(struct transport *t)
{
	SSL_free(t->ssl);
	t->ssl = NULL;
	if (t->fd >= 0)
		(void)close(t->fd);
	t->fd = -1;
}

void transport_reset(struct transport *t)
{
	struct linger linger = {.l_onoff = 1, .l_linger = 0};

	if (t->fd >= 0)
		(void)setsockopt(t->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	transport_close(t);
}
