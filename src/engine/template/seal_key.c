// SPDX-License-Identifier: Apache-2.0
#include "engine/template/seal_key.h"

#include "base/fd.h"
#include "base/log.h"
#include "engine/guest/guest.h"

#include <fcntl.h>
#include <string.h>

#define KEY_FILE "cluster/objects.keys" /* its first half */

static int read_key(struct guest_host *host, uint8_t ret[OBJECT_SEAL_KEY], struct err *err)
{
	auto_free char *path = xasprintf("%s/" KEY_FILE, host->data_dir);
	auto_fd int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0 && pread(fd, ret, OBJECT_SEAL_KEY, 0) == OBJECT_SEAL_KEY)
		return 0;
	(void)err_set(err, ERR_UNAVAILABLE, 0, "this node has no key to seal with for its cluster");
	return err_hint(err, "on the node that made the cluster: cloche cluster migrate --owner "
	                     "CONNINFO; then copy DATA/cluster/objects.keys from there to here, "
	                     "as root: systemctl restart cloche");
}

int seal_make(struct guest_host *host, const struct object_claim *claim, struct digest *ret,
              struct err *err)
{
	uint8_t key[OBJECT_SEAL_KEY];
	int r = read_key(host, key, err);

	if (r == 0)
		object_seal_make(key, claim, ret);
	explicit_bzero(key, sizeof(key));
	return r;
}

int seal_check(struct guest_host *host, const struct object_claim *claim, const struct digest *seal,
               const char *what, struct err *err)
{
	uint8_t key[OBJECT_SEAL_KEY];
	bool fits;
	int r = read_key(host, key, err);

	if (r < 0)
		return r;
	fits = object_seal_fits(key, claim, seal);
	explicit_bzero(key, sizeof(key));
	if (fits)
		return 0;
	log_error("seal.wrong", "what='%s' bytes=%llu", what, (unsigned long long)claim->size);
	(void)err_set(err, ERR_CONFLICT, 0,
	              "no broker of this cluster has sealed this %s for this project", what);
	return err_hint(err, "its row in the database was changed, or the nodes have different "
	                     "keys: sha256sum DATA/cluster/objects.keys must say the same on all");
}

int seal_derive_gateway_key(struct guest_host *host, uint8_t ret[OBJECT_SEAL_KEY], struct err *err)
{
	uint8_t key[OBJECT_SEAL_KEY];
	int r = read_key(host, key, err);

	if (r == 0)
		object_seal_derive(key, "what gateways share", ret);
	explicit_bzero(key, sizeof(key));
	return r;
}
