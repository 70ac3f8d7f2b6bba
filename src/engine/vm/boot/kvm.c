// SPDX-License-Identifier: Apache-2.0
#include "engine/vm/boot/kvm.h"

#include "base/fd.h"
#include "base/log.h"
#include "base/units.h"
#include "engine/guest/guest.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#define NAME     "kvm"            /* in the run directory */
#define QUICK_US (10 * SECOND_US) /* from the start to an agent that serves; mostly it is one */

static struct {
	bool is_forbidden;
	enum engine_speed seen;
} kvm = {.seen = SPEED_UNTRIED};

static const char *const words[] = {
	[SPEED_FULL] = "full", [SPEED_SLOW] = "slow", [SPEED_EMULATED] = "broken"};

void kvm_forbid(void)
{
	kvm.is_forbidden = true;
}

void kvm_recall(struct guest_host *host)
{
	auto_free char *path = xasprintf("%s/../" NAME, host->sandboxes_dir);
	char text[16];

	if (kvm.seen != SPEED_UNTRIED || fd_read_file(AT_FDCWD, path, text, sizeof(text)) < 0)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (words[i] && strcmp(text, words[i]) == 0)
			kvm.seen = (enum engine_speed)i;
}

static void keep(struct guest_host *host, enum engine_speed seen)
{
	auto_free char *path = xasprintf("%s/../" NAME, host->sandboxes_dir);
	auto_fd int fd = -1;

	if (kvm.seen == seen)
		return;
	kvm.seen = seen;
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || fd_write_all(fd, words[seen], strlen(words[seen])) < 0)
		log_debug("vm.kvm_not_kept", "errno=%d", errno); /* the next one tries again */
}

bool kvm_is_usable(void)
{
	auto_fd int fd = kvm.is_forbidden || kvm.seen == SPEED_EMULATED
	                         ? -1
	                         : open("/dev/kvm", O_RDWR | O_CLOEXEC);

	return fd >= 0;
}

void kvm_on_failed(struct guest_host *host)
{
	log_warn("vm.no_kvm",
	         "message='KVM of this host cannot run the guest kernel: vms are emulated'");
	keep(host, SPEED_EMULATED);
}

void kvm_on_served(struct guest_host *host, uint64_t us)
{
	log_info("vm.kvm_served", "ms=%" PRIu64, us / 1000);
	if (kvm.seen != SPEED_FULL) /* one late guest does not mean that KVM has become slow */
		keep(host, us <= QUICK_US ? SPEED_FULL : SPEED_SLOW);
}

enum engine_speed kvm_speed(void)
{
	return kvm_is_usable() ? kvm.seen : SPEED_EMULATED;
}
