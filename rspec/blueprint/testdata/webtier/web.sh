#!/bin/sh
# Answers each HTTP request with the name of this node and a number from the database.
cat > /usr/local/sbin/web <<'PERL'
use strict; use IO::Socket::INET;
my $server = IO::Socket::INET->new(LocalPort => 8000, Listen => 16, ReuseAddr => 1) or exit 0;
while (my $c = $server->accept) {
    while (my $line = <$c>) { last if $line =~ /^\r?$/ }
    my $store = IO::Socket::INET->new(PeerAddr => $ENV{database_nodes}, PeerPort => 5000, Timeout => 5);
    my $number = $store ? <$store> : "no database\n";
    print $c "HTTP/1.0 200 OK\r\n\r\n$ENV{NODE_CLIENT_ID} $number";
    close $c;
}
PERL
setsid perl /usr/local/sbin/web </dev/null >/dev/null 2>&1 &
