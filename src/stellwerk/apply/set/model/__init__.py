"""What the author wants, and what the inventory records.

policy              the policies of a set and of one object                        pure
owner               the owner of an object, and what proves it unchanged: strategies pure
confirmation        the API server's answer to the last write of an object         pure
inventory           the objects of the set and the state of each                   pure
inventory_codec     the inventory as a status or a store keeps it                  pure
reference_inventory the inventory as a bare list of objects                        pure
desired_set         documents into wanted objects, all of them checked             pure
delete_hooks        objects to apply when the set is deleted, and their record     pure
order               which kinds are written first within a wave                    pure
need_order          the same for sets without an author's order                    pure
"""
