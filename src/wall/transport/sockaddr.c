// SPDX-License-Identifier: Apache-2.0
#include "wall/transport/sockaddr.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

socklen_t sockaddr_from(struct sockaddr_storage *ret, const struct address *a, uint16_t port)
{
	*ret = (struct sockaddr_storage){0};
	if (a->bits == 32) {
		struct sockaddr_in *in = (struct sockaddr_in *)(void *)ret;

		in->sin_family = AF_INET;
		in->sin_port = htons(port);
		memcpy(&in->sin_addr, a->bytes, sizeof(in->sin_addr));
	} else {
		struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)(void *)ret;

		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(port);
		memcpy(&in6->sin6_addr, a->bytes, sizeof(in6->sin6_addr));
	}
	return sockaddr_len(ret);
}

socklen_t sockaddr_len(const struct sockaddr_storage *sa)
{
	return sa->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

int sockaddr_to(const struct sockaddr_storage *sa, struct address *ret, uint16_t *ret_port)
{
	if (sa->ss_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)sa;

		*ret = address_from_v4((const uint8_t *)&in->sin_addr);
		*ret_port = ntohs(in->sin_port);
		return 0;
	}
	if (sa->ss_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)sa;

		*ret = address_from_v6(in6->sin6_addr.s6_addr);
		*ret_port = ntohs(in6->sin6_port);
		return 0;
	}
	return -EAFNOSUPPORT;
}
