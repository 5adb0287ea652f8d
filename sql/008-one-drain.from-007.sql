-- Since 006 changes are taken off the queue through hotel_api_drain, which has its owner's rights.
revoke execute on function hotel_api_drain_changes(integer, integer) from hotel_api_serve;
