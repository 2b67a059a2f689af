// Package ping is a small ping for nodes whose image has none. Its output is that of iputils.
// It uses sockets that need no privileges (net.ipv4.ping_group_range), so every
// user of a node may run it.
//
// It has the options that scripts use: -c -i -w -W -s -t -I -q -n -4 -6. Names
// of the addresses that answer are not looked up.
package ping
