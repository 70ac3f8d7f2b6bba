// SPDX-License-Identifier: Apache-2.0
#pragma once
/* The program `sudo` inside a sandbox: asks the agent through its socket (sudo_socket.h). */
int sudo_main(int argc, char *argv[]);
