package testbed

import (
	"errors"
	"net"
	"strconv"
	"syscall"
	"time"

	"patchbay/inventory/local"
	"patchbay/inventory/local/claim"
	"patchbay/inventory/local/gateway"
)

// portTime is how long the gateway of a program that was killed may take to let
// go of its ports.
const portTime = 2 * time.Second

// listen opens a port for a holder: the one it has, or another.
func (t *Testbed) listen(port int, holder string) (net.Listener, int, error) {
	if port != 0 {
		l, err := t.listenAt(port, holder)
		if !errors.Is(err, claim.ErrTaken) && !errors.Is(err, syscall.EADDRINUSE) {
			return l, port, err
		}
		if err := t.ports.Release(uint32(port), holder); err != nil {
			return nil, 0, err
		}
	}
	var l net.Listener
	var last error
	n, err := t.ports.Take(holder, func(n uint32) bool {
		l, last = t.bind(int(n))
		return last == nil
	})
	if err != nil && last != nil && !errors.Is(last, syscall.EADDRINUSE) {
		err = last
	}
	if err != nil && l != nil {
		l.Close() // it could be opened, and not claimed
		l = nil
	}
	return l, int(n), err
}

// listenAt opens a port that the holder has, and waits for an old gateway to let
// go of it.
func (t *Testbed) listenAt(port int, holder string) (net.Listener, error) {
	if err := t.ports.Hold(uint32(port), holder); err != nil {
		return nil, err
	}
	for end := time.Now().Add(t.portTime); ; {
		l, err := t.bind(port)
		if err == nil || !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(end) || t.ctx.Err() != nil {
			return l, err
		}
		sleep(t.ctx, 20*time.Millisecond)
	}
}

func (t *Testbed) bind(port int) (net.Listener, error) {
	host := ""
	if t.settings.Listen.IsValid() {
		host = t.settings.Listen.String()
	}
	return net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
}

// published is what experimenters are told of a door.
func (t *Testbed) published(name string, port int) (login []string, proxy string) {
	if t.settings.Publish != local.Gateway {
		login = append(login, net.JoinHostPort(t.settings.PublicHost, strconv.Itoa(port)))
	}
	if t.settings.Publish != local.Direct {
		login = append(login, net.JoinHostPort(name, "22"))
		proxy = gateway.User + "@" + t.gatewayAddress()
	}
	return login, proxy
}

func (t *Testbed) gatewayAddress() string {
	return net.JoinHostPort(t.settings.PublicHost, strconv.Itoa(t.gateway.Port))
}
