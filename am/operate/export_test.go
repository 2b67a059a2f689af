package operate

// DoorsWith returns Doors with a limit of concurrent readers.
var DoorsWith = endpoints
