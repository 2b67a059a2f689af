package operate

// DoorsWith are Doors for so many readers at one time.
var DoorsWith = endpoints
