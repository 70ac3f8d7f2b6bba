// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * How programs inside come to the signer, which holds keys for SSH and is in the network wall
 * (net/policy/ssh_signer.h). They know a unix socket by the variable SSH_AUTH_SOCK. A process of
 * the sandbox, the relay, passes its bytes on to an address that belongs to nobody (RFC 2544),
 * which the wall takes for the signer.
 */
#define SIGNER_SOCKET      "/run/cloche-ssh.sock"
#define SIGNER_KNOWN_HOSTS "/etc/ssh/ssh_known_hosts2" /* read by default, and nobody else's */
#define SIGNER_ADDRESS                                                                             \
	{                                                                                          \
		198, 18, 0, 3                                                                      \
	}
#define SIGNER_PORT 22
