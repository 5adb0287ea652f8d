-- The limit of 64 KiB counts the digits of coordinates that the service shows, whatever the session of the writer shows.
alter function hotel_json_fits set extra_float_digits = 1;
