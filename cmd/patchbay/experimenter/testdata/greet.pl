# Answers every request at port 80 with a line of text, in the background: when
# this ends, it listens.
use strict;
use warnings;
use IO::Socket::INET;
use POSIX qw(setsid uname);

my $door = IO::Socket::INET->new(LocalPort => 80, Listen => 64, ReuseAddr => 1) or die "cannot listen: $!\n";
exit if fork // die "cannot fork: $!\n";
setsid;
open STDIN, '<', '/dev/null';
open STDOUT, '>', '/dev/null';
open STDERR, '>', '/dev/null';
$SIG{PIPE} = 'IGNORE';
while (1) {
    my $guest = $door->accept or next;
    while (my $line = <$guest>) {
        last if $line =~ /^\r?$/;
    }
    print $guest "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nhello from ", (uname)[1], " to ", $guest->peerhost, "\n";
}
