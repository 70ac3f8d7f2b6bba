// SPDX-License-Identifier: Apache-2.0
/* The kernel handles a message during sendto(), so the answers are there when it returns. */
#include "engine/linux/netlink.h"

#include <assert.h>
#include <sys/socket.h>

#define MESSAGE_MAX 1024 /* the longest of ours has half of it */
#define ANSWERS_MAX 8192

static void end_message(struct netlink_talk *talk)
{
	if (!talk->open)
		return;
	assert(talk->open->nlmsg_len <= MESSAGE_MAX);
	talk->len += NLMSG_ALIGN(talk->open->nlmsg_len);
	talk->open = NULL;
}

struct nlmsghdr *netlink_message(struct netlink_talk *talk, uint16_t type, uint16_t flags,
                                 size_t extra_len, void **ret_extra)
{
	struct nlmsghdr *nlh;

	end_message(talk);
	assert(talk->len + MESSAGE_MAX <= sizeof(talk->bytes));
	nlh = mnl_nlmsg_put_header(talk->bytes + talk->len);
	nlh->nlmsg_type = type;
	nlh->nlmsg_flags = NLM_F_REQUEST | flags;
	nlh->nlmsg_seq = ++talk->seq;
	talk->open = nlh;
	*ret_extra = mnl_nlmsg_put_extra_header(nlh, extra_len);
	return nlh;
}

void netlink_want_answer(struct netlink_talk *talk)
{
	talk->open->nlmsg_flags |= NLM_F_ACK;
	talk->answered_seq = talk->seq;
}

/* Returns 1 after the last wanted answer, 0 if there are more. */
static int read_answers(const char *bytes, size_t len, uint32_t last_seq)
{
	const struct nlmsghdr *nlh = (const void *)bytes;
	int left = (int)len;

	for (; mnl_nlmsg_ok(nlh, left); nlh = mnl_nlmsg_next(nlh, &left)) {
		const struct nlmsgerr *answer = mnl_nlmsg_get_payload(nlh);

		if (nlh->nlmsg_type != NLMSG_ERROR ||
		    mnl_nlmsg_get_payload_len(nlh) < sizeof(*answer))
			return -EPROTO;
		if (answer->error != 0)
			return answer->error;
		if (nlh->nlmsg_seq == last_seq)
			return 1;
	}
	return 0;
}

int netlink_send_by(struct netlink_talk *talk, int protocol, int *ret_fd)
{
	_Alignas(NLMSG_ALIGNTO) char answers[ANSWERS_MAX];
	int fd = *ret_fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
	const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	ssize_t n;
	int r = 0;

	end_message(talk);
	if (fd < 0 || sendto(fd, talk->bytes, talk->len, 0, (const struct sockaddr *)&kernel,
	                     sizeof(kernel)) < 0)
		return -errno;
	while (r == 0) {
		n = recv(fd, answers, sizeof(answers), MSG_DONTWAIT);
		if (n <= 0)
			return n < 0 ? -errno : -EPROTO;
		r = read_answers(answers, (size_t)n, talk->answered_seq);
	}
	return r < 0 ? r : 0;
}

int netlink_send(struct netlink_talk *talk, int protocol)
{
	auto_fd int fd = -1;

	return netlink_send_by(talk, protocol, &fd);
}
