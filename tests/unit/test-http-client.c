// SPDX-License-Identifier: Apache-2.0
/* The blocking client against the real server, which runs in a thread of its own; and against
 * answers that are written out by hand. */
#include "base/fd.h"
#include "http/client.h"
#include "http/server.h"
#include "http/tls.h"
#include "http/websocket.h"
#include "test.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#define BIG_BYTES ((uint64_t)24 * 1024 * 1024)

struct server {
	struct loop *loop;
	struct http_server *http;
	struct tls_context *tls;
	pthread_t thread;
	int stop_fd;
	struct loop_io *stop_io;
	char url[64];
};

struct upload {
	uint64_t bytes;
	uint32_t sum;
};

static uint32_t sum_of(uint32_t sum, const char *data, size_t len)
{
	for (size_t i = 0; i < len; i++)
		sum = sum * 31 + (unsigned char)data[i];
	return sum;
}

static void on_body(struct http_req *req, const char *data, size_t len, void *arg)
{
	struct upload *u = arg;
	char text[64];

	if (data) {
		u->bytes += len;
		u->sum = sum_of(u->sum, data, len);
		return;
	}
	(void)snprintf(text, sizeof(text), "%" PRIu64 " %u", u->bytes, u->sum);
	http_reply(req, 200, "text/plain", text, strlen(text));
}

static void free_upload(void *arg)
{
	free(arg);
}

static int upload(struct http_req *req, struct err *err)
{
	struct upload *u = xnew0(struct upload);

	(void)err;
	http_on_done(req, free_upload, u);
	http_on_body(req, on_body, u);
	return 0;
}

static int refuse_upload(struct http_req *req, struct err *err)
{
	(void)req;
	return err_set(err, ERR_DISK_FULL, 0, "no room");
}

static void more(void *arg)
{
	struct http_req *req = arg;
	uint64_t *left = http_state(req);
	static char block[10000];

	memset(block, 'z', sizeof(block));
	while (*left > 0 && http_stream_pending(req) < HTTP_HIGH_WATER) {
		size_t len = (size_t)MIN(*left, sizeof(block));

		if (http_stream_write(req, block, len) < 0)
			return;
		*left -= len;
	}
	if (*left == 0)
		http_stream_end(req);
}

static int download(struct http_req *req, struct err *err)
{
	uint64_t *left = xnew0(uint64_t);

	(void)err;
	*left = BIG_BYTES;
	http_on_done(req, free_upload, left);
	http_set_state(req, left);
	http_on_drain(req, more, req);
	http_stream_start(req, 200, "application/octet-stream", -1);
	more(req);
	return 0;
}

static int cut_off(struct http_req *req, struct err *err)
{
	(void)err;
	http_stream_start(req, 200, "text/plain", -1);
	if (http_stream_write(req, "begun", 5) == 0)
		http_stream_abort(req);
	return 0;
}

static int who(struct http_req *req, struct err *err)
{
	const char *name = http_header(req, "X-Name");

	(void)err;
	http_reply_header(req, "X-Answer", "42");
	http_reply(req, 200, "text/plain", name ? name : "nobody", name ? strlen(name) : 6);
	return 0;
}

static void on_message(struct http_ws *ws, enum ws_opcode op, const char *data, size_t len,
                       void *arg)
{
	(void)arg;
	if (len == 3 && memcmp(data, "end", 3) == 0)
		ws_close(ws, 1000, "");
	else if (ws_send(ws, WS_PING, "?", 1) < 0 || ws_send(ws, op, data, len) < 0)
		abort();
}

static const struct http_ws_ops echo_ops = {.on_message = on_message};

static int echo(struct http_req *req, struct err *err)
{
	struct http_ws *ws;

	return ws_accept(req, &echo_ops, NULL, &ws, err);
}

/* clang-format off */
static const struct http_route routes[] = {
	{HTTP_GET, "/who",      who,           HTTP_BODY_NONE},
	{HTTP_PUT, "/upload",   upload,        HTTP_BODY_STREAM},
	{HTTP_PUT, "/full",     refuse_upload, HTTP_BODY_STREAM},
	{HTTP_GET, "/download", download,      HTTP_BODY_NONE},
	{HTTP_GET, "/cut",      cut_off,       HTTP_BODY_NONE},
	{HTTP_GET, "/echo",     echo,          HTTP_BODY_NONE},
};
/* clang-format on */
static const char *const hosts[] = {"127.0.0.1", "localhost", NULL};
static const struct http_app app = {
	.routes = routes, .n_routes = ARRAY_SIZE(routes), .hosts = hosts};

static void on_stop(struct loop *loop, uint32_t events, void *arg)
{
	(void)events;
	(void)arg;
	loop_stop(loop);
}

static void *serve(void *arg)
{
	if (loop_run(((struct server *)arg)->loop) < 0)
		abort();
	return NULL;
}

static int listen_on_loopback(unsigned *ret_port)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
	                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK_INT(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	CHECK_INT(listen(fd, 16), 0);
	CHECK_INT(getsockname(fd, (struct sockaddr *)&address, &len), 0);
	*ret_port = ntohs(address.sin_port);
	return fd;
}

static void server_start(struct server *s, const char *cert_path, const char *key_path)
{
	struct err err = {0};
	unsigned port;
	int fd = listen_on_loopback(&port);

	*s = (struct server){.stop_fd = eventfd(0, EFD_CLOEXEC)};
	if (cert_path)
		CHECK_INT(tls_context_new(cert_path, key_path, &s->tls, &err), 0);
	CHECK_INT(loop_new(&s->loop, &err), 0);
	CHECK_INT(loop_io_add(s->loop, s->stop_fd, EPOLLIN, on_stop, NULL, &s->stop_io), 0);
	CHECK_INT(http_server_new(s->loop, &app, &s->http, &err), 0);
	CHECK_INT(http_server_listen(s->http, fd, s->tls, &err), 0);
	(void)snprintf(s->url, sizeof(s->url), "%s://localhost:%u", s->tls ? "https" : "http",
	               port);
	CHECK_INT(pthread_create(&s->thread, NULL, serve, s), 0);
}

static void server_stop(struct server *s)
{
	uint64_t one = 1;

	CHECK_INT(write(s->stop_fd, &one, sizeof(one)), sizeof(one));
	CHECK_INT(pthread_join(s->thread, NULL), 0);
	http_server_free(s->http);
	loop_io_remove(s->stop_io);
	loop_free(s->loop);
	tls_context_free(s->tls);
	(void)close(s->stop_fd);
}

static struct http_client *open_client(const char *url)
{
	struct http_client *c = NULL;
	struct err err = {0};

	if (http_client_open(url, &c, &err) < 0)
		print_error("%s\n", err.message);
	CHECK(c != NULL);
	return c;
}

static int ask(struct http_client *c, const struct http_send *send)
{
	struct err err = {0};
	int status = 0;

	if (http_client_send(c, send, &err) < 0 || http_client_head(c, &status, &err) < 0)
		print_error("%s\n", err.message);
	return status;
}

static void check_body(struct http_client *c, const char *wanted)
{
	auto_call(buf_done) struct buf body = BUF_INIT(4096);

	CHECK_INT(http_client_read_all(c, &body), 0);
	CHECK_STR(buf_str(&body), wanted);
}

/* What every transport must do. */
static void check_all(const char *url)
{
	auto_call(http_client_closep) struct http_client *c = open_client(url);
	struct http_field name = {"X-Name", "me"};
	struct http_send get = {.method = "GET", .path = "/who", .fields = &name, .n_fields = 1};
	int fd = http_client_fd(c);

	for (int i = 0; i < 3; i++) {
		CHECK_INT(ask(c, &get), 200);
		CHECK_STR(http_client_header(c, "x-answer"), "42");
		check_body(c, "me");
		CHECK_INT(http_client_fd(c), fd); /* kept alive */
	}
	get.method = "HEAD";
	CHECK_INT(ask(c, &get), 200);
	check_body(c, "");
	get.method = "GET";
	get.path = "/nowhere";
	CHECK_INT(ask(c, &get), 404);
	get.path = "/who"; /* the last body was not read: asked on a new connection */
	CHECK_INT(ask(c, &get), 200);
	check_body(c, "me");
}

TEST(requests_follow_each_other_on_one_connection)
{
	struct server s;

	server_start(&s, NULL, NULL);
	check_all(s.url);
	server_stop(&s);
}

struct source {
	uint64_t left;
	uint32_t sum;
};

static ssize_t give(void *arg, char *data, size_t size, struct err *err)
{
	struct source *s = arg;
	size_t len = (size_t)MIN(s->left, MIN(size, (size_t)50001));

	(void)err;
	for (size_t i = 0; i < len; i++)
		data[i] = (char)(s->left - i);
	s->left -= len;
	s->sum = sum_of(s->sum, data, len);
	return (ssize_t)len;
}

static void check_transfers(const char *url)
{
	auto_call(http_client_closep) struct http_client *c = open_client(url);
	struct http_send get = {.method = "GET", .path = "/download"};
	char data[32768];
	uint64_t got = 0;
	ssize_t n;

	for (int chunked = 0; chunked < 2; chunked++) {
		struct source source = {.left = BIG_BYTES};
		struct http_send put = {.method = "PUT",
		                        .path = "/upload",
		                        .content_type = "application/octet-stream",
		                        .source = give,
		                        .source_arg = &source,
		                        .source_len = chunked ? -1 : (int64_t)BIG_BYTES};
		char wanted[64];

		CHECK_INT(ask(c, &put), 200);
		(void)snprintf(wanted, sizeof(wanted), "%" PRIu64 " %u", BIG_BYTES, source.sum);
		check_body(c, wanted);
	}
	CHECK_INT(ask(c, &get), 200);
	while ((n = http_client_read(c, data, sizeof(data))) > 0)
		got += (uint64_t)n;
	CHECK_INT(n, 0);
	CHECK_INT(got, BIG_BYTES);
}

TEST(large_bodies_go_both_ways_whole)
{
	struct server s;

	server_start(&s, NULL, NULL);
	check_transfers(s.url);
	server_stop(&s);
}

TEST(an_answer_in_the_middle_of_an_upload_is_heard)
{
	struct server s;
	struct source source = {.left = BIG_BYTES};
	struct http_send put = {.method = "PUT",
	                        .path = "/full",
	                        .source = give,
	                        .source_arg = &source,
	                        .source_len = (int64_t)BIG_BYTES};
	struct http_client *c;

	server_start(&s, NULL, NULL);
	c = open_client(s.url);
	CHECK_INT(ask(c, &put), 507);
	http_client_close(c);
	server_stop(&s);
}

TEST(a_body_that_was_cut_off_is_no_end)
{
	struct server s;
	struct http_send get = {.method = "GET", .path = "/cut"};
	struct http_client *c;
	struct err err;
	char data[64];
	ssize_t n = 1;
	int status;

	server_start(&s, NULL, NULL);
	c = open_client(s.url);
	CHECK_INT(http_client_send(c, &get, &err), 0);
	if (http_client_head(c, &status, &err) == 0)
		while (n > 0)
			n = http_client_read(c, data, sizeof(data));
	else
		n = -EPROTO; /* the reset may take the head along */
	CHECK(n < 0);
	http_client_close(c);
	server_stop(&s);
}

static void check_echo(const char *url)
{
	auto_call(http_client_closep) struct http_client *c = open_client(url);
	auto_free char *big = xcalloc(WS_MESSAGE_MAX, 1);
	struct err err = {0};
	enum ws_opcode op;
	const char *data;
	size_t len;
	int status;

	memset(big, 'b', WS_MESSAGE_MAX);
	CHECK_INT(http_client_ws_open(c, "/echo", NULL, 0, &status, &err), 0);
	CHECK_INT(http_client_ws_recv(c, /* wait= */ false, &op, &data, &len), -EAGAIN);
	CHECK_INT(http_client_ws_send(c, WS_TEXT, "hé", 3), 0);
	CHECK_INT(http_client_ws_recv(c, /* wait= */ true, &op, &data, &len), 1);
	CHECK_INT(op, WS_TEXT);
	CHECK_MEM(data, len, "hé", 3);
	/* more at once than the buffers between hold */
	for (int i = 0; i < 4; i++)
		CHECK_INT(http_client_ws_send(c, WS_BINARY, big, WS_MESSAGE_MAX / 4), 0);
	for (int i = 0; i < 4; i++) {
		CHECK_INT(http_client_ws_recv(c, /* wait= */ true, &op, &data, &len), 1);
		CHECK_INT(op, WS_BINARY);
		CHECK_MEM(data, len, big, WS_MESSAGE_MAX / 4);
	}
	CHECK_INT(http_client_ws_send(c, WS_TEXT, "end", 3), 0);
	CHECK_INT(http_client_ws_recv(c, /* wait= */ true, &op, &data, &len), 0);
}

TEST(messages_go_there_and_back)
{
	struct server s;

	server_start(&s, NULL, NULL);
	check_echo(s.url);
	server_stop(&s);
}

TEST(a_refused_upgrade_leaves_the_answer_to_be_read)
{
	struct server s;
	struct http_client *c;
	auto_call(buf_done) struct buf body = BUF_INIT(4096);
	struct err err = {0};
	int status = 0;

	server_start(&s, NULL, NULL);
	c = open_client(s.url);
	CHECK_INT(http_client_ws_open(c, "/nowhere", NULL, 0, &status, &err), -EPROTO);
	CHECK_INT(status, 404);
	CHECK_INT(http_client_read_all(c, &body), 0);
	CHECK(strstr(body.data, "not_found") != NULL);
	http_client_close(c);
	server_stop(&s);
}

TEST(a_name_that_is_not_the_servers_own_is_refused)
{
	static const char request[] = "GET /who HTTP/1.1\r\nHost: evil.example\r\n"
				      "Origin: http://evil.example\r\nConnection: close\r\n\r\n";
	struct server s;
	struct http_client *c;
	char answer[2048] = "";
	size_t len = 0;
	ssize_t n;

	server_start(&s, NULL, NULL);
	c = open_client(s.url);
	CHECK_INT(fd_set_nonblock(http_client_fd(c), false), 0);
	CHECK_INT(fd_write_all(http_client_fd(c), request, sizeof(request) - 1), 0);
	while ((n = read(http_client_fd(c), answer + len, sizeof(answer) - 1 - len)) > 0)
		len += (size_t)n;
	CHECK(strstr(answer, "HTTP/1.1 403 Forbidden\r\n") == answer);
	CHECK(strstr(answer, "evil.example") != NULL);
	http_client_close(c);
	server_stop(&s);
}

/* A hand-written answer to one request: what the client makes of it. */
static ssize_t read_answer(const char *answer, int *ret_status, struct buf *body)
{
	struct http_send get = {.method = "GET", .path = "/"};
	struct http_client *c;
	struct err err = {0};
	unsigned port;
	int listen_fd = listen_on_loopback(&port);
	char url[64];
	ssize_t n;
	int fd;

	*ret_status = 0;
	(void)snprintf(url, sizeof(url), "http://127.0.0.1:%u/", port);
	c = open_client(url);
	fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
	CHECK_INT(http_client_send(c, &get, &err), 0);
	CHECK_INT(fd_write_all(fd, answer, strlen(answer)), 0);
	CHECK_INT(shutdown(fd, SHUT_WR), 0);
	n = http_client_head(c, ret_status, &err);
	if (n == 0)
		n = http_client_read_all(c, body);
	http_client_close(c);
	(void)close(fd);
	(void)close(listen_fd);
	return n;
}

TEST(answers_are_read_strictly_to_their_end)
{
	static const struct {
		const char *answer;
		int status;
		ssize_t result;
		const char *body;
	} rows[] = {
		{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, 0, "ok"},
		{"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200,
	         0, "ok"},
		{"HTTP/1.1 200 OK\r\n\r\nuntil the end", 200, 0, "until the end"},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", 200,
	         0, "ok"},
		{"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok", 200, -EPROTO, "ok"},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n", 200, -EPROTO,
	         "ok"},
		{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nok", 200, -EPROTO, ""},
		{"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok", 0, -EINVAL,
	         ""},
		{"SSH-2.0-OpenSSH_9.2\r\n", 0, -EINVAL, ""},
		{"HTTP/1.1 200 OK\r\nContent-Le", 0, -EPROTO, ""},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_call(buf_done) struct buf body = BUF_INIT(4096);
		int status;
		ssize_t n = read_answer(rows[i].answer, &status, &body);

		CHECK_INT(n, rows[i].result);
		CHECK_INT(status, rows[i].status);
		CHECK_STR(buf_str(&body), rows[i].body);
	}
}

TEST(an_address_that_is_none_is_refused_with_a_hint)
{
	static const char *const urls[] = {"",
	                                   "localhost",
	                                   "ftp://h",
	                                   "http://",
	                                   "http://h/p",
	                                   "http://u@h",
	                                   "unix:rel",
	                                   "http://h:0",
	                                   "https://h h",
	                                   "http://h?q=1",
	                                   "HTTP://h#frag"};

	for (size_t i = 0; i < ARRAY_SIZE(urls); i++) {
		struct http_client *c = NULL;
		struct err err = {0};

		CHECK(http_client_open(urls[i], &c, &err) < 0);
		CHECK_STR(err_code_name(err.code), "bad_request");
		CHECK(*err.hint);
	}
}

TEST(nobody_there_is_told_as_such)
{
	struct http_client *c = NULL;
	struct err err = {0};

	CHECK_INT(http_client_open("unix:/nonexistent/cloche.sock", &c, &err), -ENOENT);
	CHECK_STR(err_code_name(err.code), "unavailable");
}

/* A certificate for "localhost", signed by its own key. */
static void write_certificate(const char *cert_path, const char *key_path)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *cert = X509_new();
	X509_NAME *name = X509_get_subject_name(cert);
	X509_EXTENSION *alt =
		X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, "DNS:localhost");
	FILE *f;

	CHECK(key && alt);
	(void)ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
	(void)X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
	(void)X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
	(void)X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
	                                 (const unsigned char *)"localhost", -1, -1, 0);
	(void)X509_set_version(cert, 2);
	(void)X509_set_issuer_name(cert, name);
	(void)X509_set_pubkey(cert, key);
	(void)X509_add_ext(cert, alt, -1);
	CHECK(X509_sign(cert, key, EVP_sha256()) > 0);
	f = fopen(cert_path, "we");
	CHECK(f && PEM_write_X509(f, cert) == 1);
	(void)fclose(f);
	f = fopen(key_path, "we");
	CHECK(f && PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL) == 1);
	(void)fclose(f);
	X509_EXTENSION_free(alt);
	X509_free(cert);
	EVP_PKEY_free(key);
}

TEST(all_of_it_works_over_tls_and_a_stranger_is_not_trusted)
{
	char dir[] = "/tmp/cloche-test-XXXXXX", cert[64], key[64], url[80];
	struct http_send get = {.method = "GET", .path = "/who"};
	struct http_client *c;
	struct err err = {0};
	struct server s;
	int status;

	CHECK(mkdtemp(dir) != NULL);
	(void)snprintf(cert, sizeof(cert), "%s/cert.pem", dir);
	(void)snprintf(key, sizeof(key), "%s/key.pem", dir);
	write_certificate(cert, key);
	server_start(&s, cert, key);

	CHECK_INT(setenv("SSL_CERT_FILE", cert, 1), 0);
	check_all(s.url);
	check_transfers(s.url);
	check_echo(s.url);

	/* right certificate, wrong name */
	(void)snprintf(url, sizeof(url), "https://127.0.0.1:%s", strrchr(s.url, ':') + 1);
	c = open_client(url);
	CHECK(http_client_send(c, &get, &err) < 0 || http_client_head(c, &status, &err) < 0);
	CHECK(strstr(err.message, "certificate verify failed") != NULL);
	http_client_close(c);

	/* right name, unknown certificate */
	CHECK_INT(unsetenv("SSL_CERT_FILE"), 0);
	c = open_client(s.url);
	CHECK(http_client_send(c, &get, &err) < 0 || http_client_head(c, &status, &err) < 0);
	CHECK(strstr(err.message, "certificate verify failed") != NULL);
	http_client_close(c);

	server_stop(&s);
	(void)unlink(cert);
	(void)unlink(key);
	(void)rmdir(dir);
}

TEST(a_certificate_that_is_not_there_or_not_the_keys_is_told)
{
	struct tls_context *ctx = NULL;
	struct err err = {0};

	CHECK(tls_context_new("/nonexistent.pem", "/nonexistent.key", &ctx, &err) < 0);
	CHECK(strstr(err.message, "/nonexistent.pem") != NULL);
}
