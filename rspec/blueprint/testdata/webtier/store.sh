#!/bin/sh
# Counts its connections, and answers each with the number.
cat > /usr/local/sbin/store <<'PERL'
use strict; use IO::Socket::INET;
my $server = IO::Socket::INET->new(LocalPort => 5000, Listen => 16, ReuseAddr => 1) or exit 0;
my $count = 0;
while (my $c = $server->accept) { print $c ++$count, "\n"; close $c }
PERL
setsid perl /usr/local/sbin/store </dev/null >/dev/null 2>&1 &
