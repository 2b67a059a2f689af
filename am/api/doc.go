// Package api implements the GENI Aggregate Manager API, versions 2 and 3. It decodes
// an XML-RPC call and converts it into typed arguments, authorizes the caller, calls the aggregate,
// and returns the outcome in the envelope {code, value, output}.
//
//	Call ─ method table ─> arguments ─ Authorize ─> Grant ─> Service ─> Outcome ─> envelope
//
// Each version has a method table over the same aggregate. A row has the wire name, the
// arguments in order, the options, the required right and the handler; the tables in the
// guides are generated from the rows. codeOf converts errors to codes. Invalid XML-RPC
// gets a Fault, every other call an envelope. Of several mistakes in a call the answer
// reports the first, in this order: arguments, caller, credentials, a slice that is shut
// down, missing slivers, options, the method's own errors.
//
// The answer of ListResources is cached: the first call after a change builds the complete
// body.
//
// The package knows no HTTP, and of the store only its errors. It implements AM API v2 and v3, all
// methods, and "Return struct".
//
// # Decisions
//
//   - early options: options that decide the right are read before the caller is authorized, the
//     others after. So a caller without the right learns nothing more: [option].
//   - advertisement: each encoding is prepared as one complete body, and the first reader after a
//     change renews it. So TLS is the limit of its speed: [preparedAnswer].
package api
