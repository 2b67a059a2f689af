package node

import (
	"context"
	"net"
	"os"
	"os/signal"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"patchbay/inventory/local/agent"
	"patchbay/inventory/local/wire"
)

func TestMain(m *testing.M) {
	switch os.Args[0] {
	case Argv0:
		Stage()
	case agent.Argv0:
		standIn()
	}
	os.Exit(m.Run())
}

// standIn is an agent that does no more than these tests need: it says who it
// is, runs a command, moved to its jobs, and reaps.
func standIn() {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	l, err := net.FileListener(os.NewFile(3, "socket"))
	if err != nil {
		os.Exit(1)
	}
	for {
		c, err := l.Accept()
		if err != nil {
			os.Exit(1)
		}
		go func() {
			w := wire.New(c.(*net.UnixConn))
			defer w.Close()
			w.Send(agent.Identity{Node: os.Getenv("PATCHBAY_NODE")})
		}()
	}
}

func standInHello(ctx context.Context, c *wire.Conn) (who agent.Identity, err error) {
	c.SetDeadline(time.Now().Add(5 * time.Second))
	_, err = c.Receive(&who, 4096, 0)
	return who, err
}
