// SPDX-License-Identifier: Apache-2.0
/*
 * DNS messages. The first byte chooses: a guest's query, or a resolver's response to a fixed
 * question. The name that a query was judged by must be the one that is asked upstream, and what is
 * answered must be readable as the answer to it.
 */
#include "net/packet/dns.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_upstream(const struct dns_query *q)
{
	auto_call(buf_done) struct buf out = BUF_INIT(DNS_TCP_MAX);
	struct dns_query again;

	assert(dns_query_write(&out, q->id, &q->name, DNS_A) == 0);
	assert(dns_query_parse(out.data, out.len, &again) == DNS_NOERROR);
	assert(again.id == q->id && hostname_is_equal(&again.name, &q->name));
}

static void try_query(const uint8_t *data, size_t size)
{
	auto_call(buf_done) struct buf out = BUF_INIT(DNS_TCP_MAX);
	struct address addresses[2] = {address_from_v4((const uint8_t[4]){8, 8, 8, 8}),
	                               address_from_v6((const uint8_t[16]){0x26, 0x06, [15] = 1})};
	struct dns_response response;
	struct dns_query q, none;
	int rcode = dns_query_parse(data, size, &q);

	if (rcode < 0)
		return;
	assert(dns_answer_write(&out, &q, (enum dns_rcode)rcode, addresses, 2, 60, false) == 0);
	assert(out.len <= DNS_UDP_MAX && out.len <= MAX(q.udp_size, 512));
	assert(dns_query_parse(out.data, out.len, &none) == -EINVAL); /* it is a response */
	if (rcode != DNS_NOERROR)
		return;
	try_upstream(&q);
	assert(dns_response_parse(out.data, out.len, q.id, &q.name, (enum dns_type)q.type,
	                          &response, NULL) == 0);
	assert(response.n_addresses == (q.type == DNS_A || q.type == DNS_AAAA));
}

static void try_response(const uint8_t *data, size_t size, enum dns_type type)
{
	struct dns_response response;
	struct hostname name;

	assert(hostname_parse("example.com", 11, &name, NULL) == 0);
	if (dns_response_parse(data, size, 0x1234, &name, type, &response, NULL) < 0)
		return;
	assert(response.n_addresses <= DNS_ADDRESSES_MAX);
	assert(response.n_addresses == 0 ||
	       (!response.is_truncated && response.rcode == DNS_NOERROR));
	for (size_t i = 0; i < response.n_addresses; i++)
		assert(type == DNS_AAAA || response.addresses[i].bits == 32);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 2 || size > DNS_TCP_MAX)
		return 0;
	if (data[0] & 1)
		try_query(data + 1, size - 1);
	else
		try_response(data + 1, size - 1, data[0] & 2 ? DNS_AAAA : DNS_A);
	return 0;
}
