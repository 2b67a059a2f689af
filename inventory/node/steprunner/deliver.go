package steprunner

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"patchbay/inventory"
	"patchbay/inventory/node/setup"
	plan "patchbay/rspec/step"
)

// DeliveryTime bounds the transfer of one file of the catalogue to a node.
const DeliveryTime = 10 * time.Minute

// Deliver delivers the files of the catalogue in the folder that the step of an order needs. send
// passes the input of setup.DeliverArgs to the node, and returns the node's report. The result is a
// report that ends the step, or an error after which a retry may succeed; otherwise the step can run.
func Deliver(folder string, order []byte, send func(io.Reader) (setup.Report, error)) (setup.Report, error) {
	var o setup.Assignment
	if err := json.Unmarshal(order, &o); err != nil {
		return setup.Report{}, err
	}
	done := map[string]bool{}
	for _, url := range o.URLs() {
		name, sum, ok := plan.DeliveredFile(*url)
		if !ok || done[sum] {
			continue
		}
		done[sum] = true
		r, err := deliver(folder, name, sum, send)
		if err == nil && !r.Ended() {
			err = fmt.Errorf("the node does not say whether it has the file %s of the catalogue", name)
		}
		if err != nil || r.State == setup.Failed {
			return r, err
		}
	}
	return setup.Report{}, nil
}

// deliver sends the file name of the catalogue to the node, unless its digest is no longer sum.
func deliver(folder, name, sum string, send func(io.Reader) (setup.Report, error)) (setup.Report, error) {
	f, err := inventory.OpenCatalogue(folder, name)
	if err != nil {
		return failedDelivery("the file %s of the site's catalogue cannot be read; its operators can see why by: patchbay check", name), nil
	}
	defer f.Close()
	// An early check, with a message for people; the node checks the digest of what it gets.
	got, err := inventory.SumOf(f)
	if err != nil {
		return setup.Report{}, err
	}
	if got != sum {
		return failedDelivery("the file %s of the catalogue changed after the site was read; the operator runs: patchbay reload; then delete this node and make it again, since its steps name the earlier file", name), nil
	}
	return send(io.MultiReader(strings.NewReader(sum), io.LimitReader(f, inventory.MaxCatalogueFile)))
}

func failedDelivery(format string, args ...any) setup.Report {
	return setup.Report{State: setup.Failed, Exit: 1, Message: fmt.Sprintf(format, args...)}
}
