package testbed

import (
	"errors"
	"fmt"
	"net"

	"patchbay/inventory/local"
	"patchbay/inventory/local/gateway"
	"patchbay/inventory/local/node"
)

const (
	gatewayFile    = "gateway.json"
	gatewayKeyFile = "gateway_key"
)

// gatewayLimits keep a gateway that somebody fills within bounds.
var gatewayLimits = node.Limits{Memory: 512 << 20, PIDs: 256}

func (t *Testbed) gatewayHolder() string { return t.settings.Instance + ":gateway" }

// openGateway starts the gateway with the numbers and the key that it had.
func (t *Testbed) openGateway(start func(gateway.Options) (doorkeeper, error)) error {
	before := t.gateway
	if err := t.gatewayID(); err != nil {
		return fmt.Errorf("no user id for the gateway: %w", err)
	}
	key, _, err := keptHostKey(t.o.State, gatewayKeyFile, func() ([]byte, error) {
		key, _, err := newHostKey()
		return key, err
	})
	if err != nil {
		return err
	}
	o := gateway.Options{
		Program: t.o.Program, UID: int(t.gateway.UID), GID: int(t.gateway.UID),
		HostKey: key, Agent: t.machines.Agent, Log: t.log,
		Place: func(pid int) error { return t.host.PlaceGateway(pid, gatewayLimits) },
	}
	if t.settings.Publish != local.Direct {
		if o.Gateway, err = t.gatewayPort(); err != nil {
			return err
		}
	}
	if t.gateway != before {
		if err := t.write(t.o.State, gatewayFile, t.gateway); err != nil {
			return errors.Join(err, closeListener(o.Gateway))
		}
	}
	t.doors, err = start(o)
	return err
}

func closeListener(l net.Listener) error {
	if l == nil {
		return nil
	}
	return l.Close()
}

func (t *Testbed) gatewayID() (err error) {
	if t.gateway.UID != 0 && t.ids.Hold(t.gateway.UID, t.gatewayHolder()) == nil {
		return nil
	}
	t.gateway.UID, err = t.ids.Take(t.gatewayHolder(), nil)
	return err
}

// gatewayPort opens the port that the settings name, or the one that it had.
func (t *Testbed) gatewayPort() (net.Listener, error) {
	if t.settings.GatewayPort == 0 {
		if old := t.gateway.Port; old != 0 && (old < t.settings.FirstPort || old > t.settings.LastPort) {
			if err := t.ports.Release(uint32(old), t.gatewayHolder()); err != nil {
				return nil, err
			}
			t.gateway.Port = 0
		}
		l, port, err := t.listen(t.gateway.Port, t.gatewayHolder())
		if err != nil {
			return nil, fmt.Errorf("no port for the gateway: %w; see who has the ports: ss -tlnp", err)
		}
		t.gateway.Port = port
		return l, nil
	}
	if old := t.gateway.Port; old != 0 && old != t.settings.GatewayPort {
		if err := t.ports.Release(uint32(old), t.gatewayHolder()); err != nil {
			return nil, err
		}
	}
	t.gateway.Port = t.settings.GatewayPort
	l, err := t.listenAt(t.gateway.Port, t.gatewayHolder())
	if err != nil {
		return nil, fmt.Errorf("the gateway cannot have port %d: %w; name another gateway_port in the settings", t.gateway.Port, err)
	}
	return l, nil
}
